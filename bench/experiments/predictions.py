"""What the models say of a call: `semcache predict`, and where that prints the best number of streams only, the same equations for a
given one.
"""

import concurrent.futures
import json
import subprocess
import tomllib

from experiments.equations import Links

# The predictors of `semcache predict` by the names that the pages use. CSO is what CoCoPeLia's paper calls Eq. 5 of van Werkhoven et
# al. with as many streams as there are sub-problems; BTS and DR are its own names of Eq. 4 and 5.
PREDICTORS = {
    "Eq. 1": "CoCoPeLia baseline",
    "Eq. 2": "CoCoPeLia data location",
    "Eq. 4 (BTS)": "CoCoPeLia bidirectional",
    "Eq. 5 (DR)": "CoCoPeLia data reuse",
    "timeline": "timeline of the plan",
}
EXPLICIT, STREAMS, MAPPED = "explicit copies", "streams, 2 copy engines", "mapped memory"
OPERANDS = {"dgemm": "abc", "daxpy": "xy", "dgemv": "axy"}


class Problem:
    """A call of an experiment: `dgemm 4096 4096 4096 hhd`, `daxpy 1048576 hh`, or `dgemv 512 512 hhh t`."""

    def __init__(self, call):
        self.call = call
        self.routine, *words = call.split()
        self.transposed = words[-1] == "t"
        *sizes, self.places = words[:-1] if self.transposed else words
        self.sizes = tuple(map(int, sizes))

    @property
    def flops(self):
        return 2.0 * self.sizes[0] * (self.sizes[1] * self.sizes[2] if self.routine == "dgemm" else 1)

    @property
    def full(self):
        """Whether all operands are at the host."""
        return "d" not in self.places

    @property
    def bytes(self):
        """Of each operand."""
        if self.routine == "daxpy":
            return [8.0 * self.sizes[0]] * 2
        if self.routine == "dgemv":
            m, n = self.sizes
            return [8.0 * m * n, *([8.0 * m, 8.0 * n] if self.transposed else [8.0 * n, 8.0 * m])]
        m, n, k = self.sizes
        return [8.0 * m * k, 8.0 * k * n, 8.0 * m * n]

    @property
    def moved(self):
        """Bytes to the device and to the host. The result is the last operand; dgemv does not read it."""
        at_host = [b if place == "h" else 0.0 for b, place in zip(self.bytes, self.places)]
        return sum(at_host[:-1] if self.routine == "dgemv" else at_host), at_host[-1]

    def options(self):
        where = {"h": "host", "d": "device"}
        places = ",".join(f"{name}={where[p]}" for name, p in zip(OPERANDS[self.routine], self.places))
        return [self.routine, *map(str, self.sizes), "--from", places, "--to", where[self.places[-1]],
                *(["--beta", "1"] if self.routine == "dgemm" else []), *(["--transa", "t"] if self.transposed else [])]


class Answer:
    """What `semcache predict` says of a call, with host memory that is page-locked already."""

    def __init__(self, told):
        devices = told["devices"]
        self.seconds, self.on = devices["seconds"], told["decision"]["on"]
        self.tile = devices.get("tile")
        self.predictors = {p["name"]: p["seconds"] for p in devices["predictors"] if p["seconds"] is not None}
        self.pieces = {p["name"]: p["pieces"] for p in devices["predictors"]}

    def of(self, name):
        """By the name that the pages use."""
        return self.predictors[PREDICTORS[name]]


class Machine:
    """A machine that calls are predicted for: a preset of `semcache predict`, or a file of rates."""

    def __init__(self, command, name):
        self.command, self.name, self.asked, self.links, self.rates = command, name, {}, None, None
        if name.endswith(".toml"):
            with open(name, "rb") as f:
                self.rates = tomllib.load(f)
            self.links = Links.of_rates(self.rates)

    def ask(self, call, tile=0):
        """The answer for a call, with a tile size of level 3 or the library's own choice."""
        if (call, tile) not in self.asked:
            self.asked[call, tile] = self.run(call, tile)
        return self.asked[call, tile]

    def run(self, call, tile):
        command = [self.command, "predict", *Problem(call).options(), "--locked", "--json", "--machine", self.name, "--devices", "1"]
        done = subprocess.run(command + (["--tile", str(tile)] if tile else []), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return Answer(json.loads(done.stdout))

    def ask_all(self, wanted):
        """Asks for many calls, two at a time."""
        todo = list(dict.fromkeys(w for w in wanted if w not in self.asked))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            self.asked.update(zip(todo, pool.map(lambda w: self.run(*w), todo)))

    # -- for a given number of streams, from the links of a file of rates ----------------------------------------

    def kernel(self, call):
        """t_E: what of explicit copies is no transfer."""
        return self.ask(call).predictors[EXPLICIT] - self.links.explicit(*Problem(call).moved, 0.0)

    def streams(self, call, n):
        """Eq. 5 of van Werkhoven et al. for n streams."""
        answer, to_back, kernel = self.ask(call), Problem(call).moved, self.kernel(call)
        if abs(self.links.streams(*to_back, kernel, answer.pieces[STREAMS]) / answer.predictors[STREAMS] - 1) > 1e-6:
            raise RuntimeError(f"{call}: semcache predict and this script have different equations of streams")
        return self.links.streams(*to_back, kernel, n)

    def pieces(self, n, places, k):
        """Eq. 4 of CoCoPeLia for daxpy in k pieces, of which `semcache predict` knows one, as the library launches one kernel."""
        piece = f"daxpy {-(-n // k)} {places}"
        slowdown = [self.rates["device"][key]["bid_slowdown"] for key in ("h2d", "d2h")]
        return self.links.pieces(*Problem(piece).moved, places.count("h"), self.kernel(piece), k, slowdown)
