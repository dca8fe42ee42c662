// Ends of processes and of libraries in C++: destructors of static and of thread-local objects, quick_exit, a thread
// that computes while main returns, and a library that is closed while its own data is an operand.
//
//   ends WHAT [LIBRARY]    statics, locals, quick, running, unload
#include <dlfcn.h>
#include <sys/mman.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include "edge.h"
}

namespace {
constexpr int N = 64, NN = N * N;
double *a, *b, *c, *d;

// Reads and computes in its destructor.
struct Last {
    const char *name;
    std::vector<double> own;
    bool armed = false;
    explicit Last(const char *n) : name(n), own(NN) {}
    ~Last()
    {
        if (!armed)
            return;
        show(name, own.data(), NN);
        multiply(N, 1, own.data(), b, 0, d);
        d[7] += 1;
        show("computed by the destructor", d, NN);
        fflush(stdout);
    }
    void compute()
    {
        multiply(N, 1, a, b, 0, own.data());
        armed = true;
    }
};
Last first("a static object");
thread_local Last local("a thread's object");

void at_the_end()
{
    show("by at_quick_exit", c, NN);
    multiply(N, 1, c, a, 0, d);
    show("computed", d, NN);
    fflush(stdout);
}

int unload(const char *path)
{
    uintptr_t was = 0;
    int again = 0;
    for (int round = 0; round < 8; round++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("%s\n", dlerror());
            return 2;
        }
        auto data = static_cast<double *>(dlsym(library, "matrix")), zero = static_cast<double *>(dlsym(library, "nothing"));
        auto compute = reinterpret_cast<void (*)(int)>(dlsym(library, "compute"));
        if (!data || !zero || !compute)
            return 2;
        // The values of the file, not the results in the object that was loaded at this address before.
        show("fresh data", data, NN);
        show("fresh zeros", zero, 2 * NN);
        compute(round);
        multiply(N, 1, data, zero, 1, c);
        if (round & 1)
            show("used", c, NN);
        // The data are on a device when the library is unloaded, and its destructor computes once more.
        multiply(N, 1, a, data, 0, zero);
        multiply(N, 1, zero, b, 0, data);
        again += was == reinterpret_cast<uintptr_t>(zero);
        was = reinterpret_cast<uintptr_t>(zero);
        dlclose(library);
        if (round >= 4) {
            // New memory at the library's address.
            auto page = reinterpret_cast<void *>(was / 4096 * 4096 + 4096);
            void *at = mmap(page, 8 * NN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            show("in its place", static_cast<double *>(at), NN);
            multiply(N, 1, a, b, 0, static_cast<double *>(at));
            show("computed there", static_cast<double *>(at), NN);
            munmap(at, 8 * NN);
        }
    }
    fprintf(stderr, "again %d\n", again);
    return 7;
}
} // namespace

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "";
    static Last second("a local static object");
    a = doubles(NN), b = doubles(NN), c = doubles(NN), d = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    fill(c, NN);
    if (what == "statics") {
        first.compute();
        second.compute();
        return 7;
    }
    if (what == "locals") {
        for (int i = 0; i < 5; i++) {
            std::thread t([] { local.compute(); });
            t.join();
        }
        local.compute();
        return 7;
    }
    if (what == "quick") {
        at_quick_exit(at_the_end);
        multiply(N, 1, a, b, 0, c);
        quick_exit(7);
    }
    if (what == "running") {
        // The process ends at any point of a call, with memory that is never freed.
        for (int i = 0; i < 3; i++)
            std::thread([i] {
                std::vector<double> own(NN);
                double sum = 0;
                for (int k = 0;; k++) {
                    multiply(N, 1, a, b, k % 2, own.data());
                    sum += own[static_cast<size_t>(k * (i + 1) % NN)];
                }
            }).detach();
        first.compute();
        usleep(30000);
        return 7;
    }
    if (what == "unload" && argc > 2)
        return unload(argv[2]);
    return 2;
}
