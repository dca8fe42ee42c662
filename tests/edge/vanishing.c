/* Memory that can be read and written when a call begins, and not when its bytes are copied: the calling thread faults
 * as it would without semcache, with no other effect.
 *
 *   vanishing missing [N]     shared memory that a thread of the program fills in when it is touched, after a while
 *   vanishing protected [N]   shared memory that another thread protects and unprotects all the time; the handler waits
 *   vanishing jumps [N]       the same; the handler jumps out of the call, which is made again
 *   vanishing shrinking [N]   a file that another process truncates and lengthens all the time; the handler waits
 *   vanishing holes [N]       private memory, of which pages are unmapped by a bare system call; the handler maps others
 *   vanishing leaps [N]       the same; the handler jumps out of the first call that meets such a hole */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge.h"

enum { PAGE = 4096 };
static int n = 64;
static size_t nn, bytes;
static double *a, *b, *c, *d, *x;

static void *shared(int file)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

/* A system call instruction of the program, which no hook sees. */
static void unseen(long number, long one, long two, long three)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three) : "rcx", "r11", "memory");
    if (result)
        exit(2);
}

static int fd;
static volatile int filled, stops;

/* Answers every fault, after a while, with a number that tells the page. */
static void *answers(void *unused)
{
    static double page[PAGE / 8] __attribute__((aligned(PAGE)));
    (void)unused;
    for (;;) {
        struct uffd_msg msg;
        if (read(fd, &msg, sizeof msg) != sizeof msg || msg.event != UFFD_EVENT_PAGEFAULT)
            continue;
        uintptr_t at = msg.arg.pagefault.address & ~(uintptr_t)(PAGE - 1);
        usleep(100);
        filled++;
        for (int i = 0; i < PAGE / 8; i++)
            page[i] = (double)((at - (uintptr_t)x) / PAGE % 5) + i % 2;
        struct uffdio_copy copy = {at, (uintptr_t)page, PAGE, 0, 0};
        if (ioctl(fd, UFFDIO_COPY, &copy) && errno != EEXIST)
            _exit(6);
    }
}

static void served(const char *what, const double *at)
{
    uint64_t h = hash(at, nn);
    printf("  %s: %d pages, %016llx\n", what, filled, (unsigned long long)h);
    filled = 0;
}

static void missing(void)
{
    pthread_t thread;
    /* The userfaultfd does not serve faults of the kernel: a system call that meets one fails. */
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MISSING_SHMEM};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || pthread_create(&thread, NULL, answers, NULL)) {
        perror("userfaultfd");
        exit(2);
    }
    x = shared(-1);
    struct uffdio_register watched = {{(uintptr_t)x, bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
    struct uffdio_range all = {(uintptr_t)x, bytes};
    for (int round = 0; round < 4; round++) {
        memcpy(x, a, bytes);
        multiply(n, 1, x, b, 0, c);
        served("an input", c);
        unseen(SYS_ioctl, fd, UFFDIO_REGISTER, (long)&watched);
        unseen(SYS_madvise, (long)x, (long)bytes, MADV_REMOVE);
        multiply(n, 1, x, b, 1, c);
        served("missing", c);
        unseen(SYS_madvise, (long)(x + nn / 2), (long)bytes / 4, MADV_REMOVE);
        multiply(n, 1, b, x, 1, c);
        served("some of it", c);
        unseen(SYS_madvise, (long)(x + nn / 2), (long)bytes / 4, MADV_REMOVE);
        double sum = ddot_(&(int){(int)nn}, x, &(int){1}, a, &(int){1});
        printf("  a sum: %d pages, %.0f\n", filled, sum);
        filled = 0;
        unseen(SYS_ioctl, fd, UFFDIO_UNREGISTER, (long)&all);
        multiply(n, 1, a, b, 0, x);
        multiply(n, 1, b, a, 1, x);
        served("a result", x);
        unseen(SYS_ioctl, fd, UFFDIO_REGISTER, (long)&watched);
        unseen(SYS_madvise, (long)x, (long)bytes, MADV_REMOVE);
        multiply(n, 1, a, b, 0, x);
        served("missing", x);
        unseen(SYS_madvise, (long)(x + nn / 4), (long)bytes / 2, MADV_REMOVE);
        multiply(n, 1, b, a, 1, x);
        served("some of it, updated", x);
        unseen(SYS_ioctl, fd, UFFDIO_UNREGISTER, (long)&all);
        /* Results on devices stay there. */
        multiply(n, 1, c, b, 0, d);
        served("others", d);
    }
}

static sigjmp_buf out;
static volatile int may_jump, jumped;

static void waits(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if ((char *)info->si_addr < (char *)x || (char *)info->si_addr >= (char *)x + bytes ||
        info->si_code != (signal == SIGSEGV ? SEGV_ACCERR : BUS_ADRERR))
        _exit(3);
    /* A call that the handler left by a jump leaks its memory. */
    if (may_jump && jumped < 20) {
        jumped++;
        siglongjmp(out, 1);
    }
    sched_yield();
}

static void handle(int signal)
{
    struct sigaction action = {.sa_sigaction = waits, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

/* C = A B, as often as the handler jumps out of it. */
static void product(int jumps, const double *left, const double *right, double *to)
{
    sigsetjmp(out, 1);
    may_jump = jumps;
    multiply(n, 1, left, right, 0, to);
    may_jump = 0;
}

static void *toggles(void *unused)
{
    (void)unused;
    for (int i = 0; !stops; i++) {
        if (mprotect(x, bytes, i % 3 ? PROT_READ : PROT_NONE) || mprotect(x, bytes, PROT_READ | PROT_WRITE))
            _exit(4);
        for (int pause = i % 50; pause--;)
            sched_yield();
    }
    return NULL;
}

static void protected(int jumps)
{
    pthread_t thread;
    x = shared(-1);
    handle(SIGSEGV);
    product(0, a, b, d);
    if (pthread_create(&thread, NULL, toggles, NULL))
        exit(2);
    int wrong = 0;
    for (int round = 0; round < 300; round++) {
        product(jumps, a, b, x);
        wrong += memcmp(x, d, bytes) != 0;
        if (!jumps) {
            multiply(n, 1, a, b, -1, x);
            for (size_t i = 0; i < nn; i++)
                wrong += x[i] != 0;
        }
        memcpy(x, a, bytes);
        product(jumps, x, b, c);
        wrong += memcmp(c, d, bytes) != 0;
    }
    stops = 1;
    pthread_join(thread, NULL);
    product(0, d, b, c);
    printf("wrong: %d\n", wrong);
    show("d", d, nn), show("c", c, nn);
}

static void shrinking(void)
{
    int file = memfd_create("matrix", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes))
        exit(2);
    pid_t other = fork();
    if (!other) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0;; i++) {
            if (ftruncate(file, (off_t)(i % 4 * bytes / 4 / PAGE * PAGE)) || ftruncate(file, (off_t)bytes))
                _exit(1);
            for (int pause = i % 50; pause--;)
                sched_yield();
        }
    }
    x = shared(file);
    handle(SIGBUS);
    product(0, a, b, d);
    for (int round = 0; round < 300; round++) {
        product(0, a, b, x);
        product(0, x, b, c);
        memset(x, 0, bytes);
        multiply(n, 1, a, b, 1, x);
    }
    int status;
    kill(other, SIGKILL);
    if (waitpid(other, &status, 0) != other || ftruncate(file, (off_t)bytes))
        exit(2);
    product(0, a, b, x);
    show("x", x, nn);
    product(0, d, b, c);
    show("d", d, nn), show("c", c, nn);
}

static volatile int mapped, leaps;

/* Puts a page where there is none, with a number that tells which. */
static void maps(int signal, siginfo_t *info, void *context)
{
    double *at = (double *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    (void)signal, (void)context;
    if (at < x || at >= x + nn || info->si_code != SEGV_MAPERR)
        _exit(3);
    register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, file __asm__("r8") = -1, from __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_mmap), "D"(at), "S"(PAGE), "d"(PROT_READ | PROT_WRITE), "r"(flags), "r"(file), "r"(from)
                     : "rcx", "r11", "memory");
    if (result != (long)at)
        _exit(4);
    for (int i = 0; i < PAGE / 8; i++)
        at[i] = (double)((at - x) * 8 / PAGE % 5) + i % 2;
    mapped++;
    if (leaps) {
        leaps = 0;
        siglongjmp(out, 1);
    }
}

static void met(const char *what, const double *at)
{
    uint64_t h = hash(at, nn);
    printf("  %s: %d pages, %016llx\n", what, mapped, (unsigned long long)h);
    mapped = 0;
}

static void hole(int where)
{
    unseen(SYS_munmap, (long)x + (long)(bytes / PAGE * (size_t)where / 8 * PAGE), 2 * PAGE, 0);
}

/* C = A B + beta C; if the handler leaves it once, again. */
static void met_by(double beta, const double *left, const double *right, double *to, int jumps)
{
    volatile int first = jumps;
    sigsetjmp(out, 1);
    leaps = first;
    first = 0;
    multiply(n, 1, left, right, beta, to);
    leaps = 0;
    /* The thread's state is unchanged. */
    sigset_t mask;
    int cancels;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancels);
    if (sigismember(&mask, SIGUSR1) || cancels != PTHREAD_CANCEL_ENABLE)
        printf("  the thread is not as it was\n");
}

/* A matrix in new memory, of malloc or a mapping. */
static void another(int kind, const double *from)
{
    static double *last[2];
    if (kind)
        x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        free(last[0]), x = doubles(nn);
    if (x == MAP_FAILED)
        exit(2);
    last[kind] = x;
    memcpy(x, from, bytes);
}

static void holes(int jumps)
{
    struct sigaction action = {.sa_sigaction = maps, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 6; round++) {
        const int kind = round % 2;
        /* These stay where they are. */
        multiply(n, 1, a, b, round > 0, d);
        another(kind, a);
        hole(2 + round % 3);
        met_by(0, x, b, c, jumps);
        met("an input", c);
        x[round] += 1;
        met_by(1, b, x, d, 0);
        met("that again", d);
        another(kind, b);
        hole(3);
        met_by(1, a, b, x, 0);
        met("updated", x);
        met_by(1, a, b, x, 0);
        x[round] += 1;
        another(kind, a);
        hole(4);
        met_by(0, a, b, x, jumps && round % 2);
        met("a result", x);
        multiply(n, 1, b, a, 0, x);
        hole(5);
        met("a result that was there", x);
        met_by(1, a, x, d, 0);
        met("others", d);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2)
        n = atoi(argv[2]);
    nn = (size_t)n * n, bytes = nn * sizeof(double);
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(nn), b = doubles(nn), c = doubles(nn), d = doubles(nn);
    fill(a, nn), fill(b, nn);
    if (!strcmp(what, "missing"))
        missing();
    else if (!strcmp(what, "shrinking"))
        shrinking();
    else if (!strcmp(what, "holes") || !strcmp(what, "leaps"))
        holes(*what == 'l');
    else if (!strcmp(what, "protected") || !strcmp(what, "jumps"))
        protected(*what == 'j');
    else
        return 2;
    return 0;
}
