/* Memory shared with another process: its writes are inputs of calls here, and it sees the results.
 *
 *   shared [huge]     huge: in huge pages (MAP_HUGETLB) that the kernel sets aside; status 77 if it does not */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, BYTES = 4 * NN * sizeof(double) };
static double *a, *b;
static int to_other[2], from_other[2];

/* The other process: fills the first matrix of the block it shares, says what it sees in the third. */
static void other(double *shared)
{
    int round;
    while (read(to_other[0], &round, sizeof round) == sizeof round) {
        uint64_t seen = hash(shared + 2 * NN, NN);
        for (int i = 0; i < NN; i++)
            shared[i] = (i * 3 + round * 5) % 9 - 4;
        shared[3 * NN + round] = round;
        if (write(from_other[1], &seen, sizeof seen) != sizeof seen)
            break;
    }
    _exit(0);
}

static void with(const char *what, double *shared)
{
    double *c = doubles(NN);
    if (pipe(to_other) || pipe(from_other))
        exit(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(to_other[1]);
        other(shared);
    }
    close(to_other[0]);
    close(from_other[1]);
    fill(shared, 3 * NN);
    for (int round = 0; round < 8; round++) {
        uint64_t seen;
        /* The shared matrix as a result, as an input beside results in private memory, and in place. */
        multiply(N, 1, a, b, round & 1, shared + 2 * NN);
        if (write(to_other[1], &round, sizeof round) != sizeof round || read(from_other[0], &seen, sizeof seen) != sizeof seen)
            exit(2);
        multiply(N, 1, shared, b, 0, c);
        printf("%s %d: it saw %016llx", what, round, (unsigned long long)seen);
        printf(", we see %016llx", (unsigned long long)hash(c, NN));
        multiply(N, 1, shared, c, 1, shared + NN);
        daxpy_(&(int){NN}, &(double){-1}, shared, &(int){1}, shared + NN, &(int){1});
        for (int i = 0; i < NN; i++)
            if (shared[NN + i] > 1e6 || shared[NN + i] < -1e6)
                shared[NN + i] = i % 7;
        printf(" %016llx\n", (unsigned long long)hash(shared + NN, NN));
    }
    close(to_other[1]);
    close(from_other[0]);
    waitpid(child, NULL, 0);
    show("numbers of its", shared + 3 * NN, 8);
    free(c);
}

static double *map(size_t bytes, int flags, int fd)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(errno == ENOMEM || errno == EINVAL || errno == EPERM ? 77 : 2);
    }
    return at;
}

static void huge(void)
{
    const size_t page = (size_t)2 << 20;
    double *private = map(2 * page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    double *results = doubles(NN);
    for (int i = 0; i < 4; i++) {
        fill(private, NN);
        multiply(N, 1, private, b, 0, private + NN);
        multiply(N, 1, private + NN, b, 0, results);
        multiply(N, 1, a, results, 0, (double *)((char *)private + page) - NN / 2);
        show("in huge pages", private, 2 * page / sizeof(double));
        show("from them", results, NN);
    }
    /* Half of the huge pages are unmapped and mapped again as small pages. */
    if (munmap((char *)private + page, page))
        exit(2);
    multiply(N, 1, private, b, 0, private + NN);
    /* In the hole, unless a thread of a library has mapped memory there. */
    double *small = mmap((char *)private + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (small == MAP_FAILED)
        exit(2);
    multiply(N, 1, a, b, 0, small);
    show("behind them", small, NN);
    show("and in front", private, 2 * NN);
    munmap(private, page);
    munmap(small, page);
    free(results);
    double *both = map(2 * page, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    with("shared huge pages", both);
    munmap(both, 2 * page);
}

int main(int argc, char **argv)
{
    char name[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    if (argc > 1 && !strcmp(argv[1], "huge")) {
        huge();
        return 0;
    }
    with("anonymous", map(BYTES, MAP_SHARED | MAP_ANONYMOUS, -1));
    snprintf(name, sizeof name, "/edge-%d", getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || shm_unlink(name) || ftruncate(fd, BYTES))
        return 2;
    with("shm_open", map(BYTES, MAP_SHARED, fd));
    close(fd);
    fd = memfd_create("edge", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, BYTES))
        return 2;
    double *twice = map(BYTES, MAP_SHARED, fd), *again = map(BYTES, MAP_SHARED, fd);
    with("memfd", twice);
    /* The same pages twice in one process. */
    for (int i = 0; i < 4; i++) {
        multiply(N, 1, a, b, 0, twice);
        show("the other address", again, NN);
        fill(again, NN);
        multiply(N, 1, twice, b, 0, again + NN);
        show("and back", twice + NN, NN);
    }
    close(fd);
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    void *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
    if (at == (void *)-1 || shmctl(id, IPC_RMID, NULL))
        return 2;
    with("System V", at);
    shmdt(at);
    /* A System V segment that the program attaches over its own results. */
    double *mine = map(BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    multiply(N, 1, a, b, 0, mine);
    id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    at = id < 0 ? (void *)-1 : shmat(id, mine, SHM_REMAP);
    if (at == (void *)-1 || shmctl(id, IPC_RMID, NULL))
        return 2;
    show("attached over a result", mine, NN);
    with("attached", mine);
    shmdt(mine);
    return 0;
}
