"""Performance models for CPU-GPU data transfers.

Van Werkhoven, Maassen, Seinstra and Bal, CCGrid 2014. What is measured:

* transfers: of one byte, of 16 MiB in 1 to 256 streams, of up to 1 GiB, in both directions at once, and by kernels that access the
  host's memory (Tables I and II, Fig. 5 and 6);
* daxpy, which uses each element once as `state` does, and dgemv, which uses x repeatedly as `buoydiff` does its inputs: with
  explicit copies, in streams, on mapped memory, and mixed (Fig. 8 to 10).
"""

from experiments.measuring import Program


def steps(quick):
    return [Program("transfers", ["peer_transfers", *(["16", "5", "60", "3"] if quick else ["1024", "30", "20"])]),
            Program("strategies", ["peer_strategies", "axpy,gemv", *(["60", "36"] if quick else ["40", "2050"])])]
