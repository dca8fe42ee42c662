/* What programs do to the mappings under their matrices: discard, move, cut, replace, protect, advise, lock.
 *
 *   mappings DIRECTORY */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "io.h"

static double *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

/* The pages move to another address and the old range stays mapped. The program passes no new address: the register of
 * that argument is undefined, and an earlier call may leave any value there. */
static void moved_off(void)
{
    for (int round = 0; round < 3; round++) {
        double *m = map(BYTES);
        fill(m, NN);
        result(m);
        result(e);
        /* Without semcache libc's functions leave the register alone; a wrapper that makes memory accessible and
         * repeats the system call does not. */
        __asm__ volatile("xor %%r8d, %%r8d" ::: "r8");
        int named = round == 0   ? uname((struct utsname *)e)
                    : round == 1 ? statfs("/", (struct statfs *)e)
                                 : fstatfs(file, (struct statfs *)e);
        double *moved = mremap(m, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
        if (moved == MAP_FAILED) {
            printf("not moved: %d\n", errno);
            continue;
        }
        printf("named %d, errno %d\n", named, errno);
        show("moved off", moved, NN);
        show("what stayed", m, NN);
        result(m);
        result(moved);
        munmap(m, BYTES);
        show("moved off and used", moved, NN);
        /* A system call by number goes to the kernel, which wants the address of a page. */
        m = (double *)syscall(SYS_mremap, moved, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 8L);
        printf("by number: %d\n", m == MAP_FAILED ? errno : 0);
        errno = 0;
        munmap(moved, BYTES);
    }
}

static void discarded_and_moved(void)
{
    double *m = map(2 * BYTES);
    for (int round = 0; round < 3; round++) {
        fill(m, 2 * NN);
        result(m);
        madvise(m, 8192, MADV_DONTNEED);
        input(m);
        show("half discarded", m, 2 * NN);
        show("as an input", d, NN);
        result(m);
        madvise(m, 2 * BYTES, MADV_DONTNEED);
        multiply(N, 1, a, b, 1, m);
        show("discarded and used", m, NN);
        result(m);
        double *moved = mremap(m, 2 * BYTES, 4 * BYTES, MREMAP_MAYMOVE);
        show("grown", moved, 4 * NN);
        result(moved + 3 * NN);
        result(moved);
        m = mremap(moved, 4 * BYTES, 2 * BYTES, MREMAP_MAYMOVE);
        show("shrunk", m, 2 * NN);
        result(m);
        munmap((char *)m + BYTES, BYTES);
        input(m);
        show("cut", d, NN);
        result(m);
        double *again = mmap(m, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        show("mapped over", again, NN);
        result(again);
        munmap(again, BYTES);
        m = map(2 * BYTES);
        show("fresh", m, 2 * NN);
        result(m + 3);
        /* A file over a part of a used block, then away again. */
        if (ftruncate(file, 8192) || pwrite(file, b, 8192, 0) != 8192)
            exit(2);
        if (mmap((char *)m + 4096, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
            exit(2);
        show("a file in the middle", m, 2 * NN);
        input(m);
        result(m);
        show("a result over it", m, 2 * NN);
        mprotect(m, 4096, PROT_READ);
        input(m);
        show("a protected head", d, NN);
        mprotect(m, 4096, PROT_READ | PROT_WRITE);
        result(m);
        show("no longer", m, NN);
        munmap(m, 2 * BYTES);
        m = map(2 * BYTES);
    }
    munmap(m, 2 * BYTES);
}

static void advised_and_protected(void)
{
    for (int round = 0; round < 2; round++) {
        double *m = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        double *each[2] = {m, e};
        for (int i = 0; i < 2; i++) {
            double *x = each[i];
            char *p = (char *)x;
            result(x);
            said("mlock", mlock(x, BYTES));
            shown("locked", x);
            result(x);
            shown("locked result", x);
            said("munlock", munlock(p + 4096, 4096));
            result(x);
            said("mlock2", mlock2(p + 4096, 5000, MLOCK_ONFAULT));
            shown("locked on fault", x);
            munlock(x, BYTES);
            result(x);
            said("msync", msync(x, BYTES, MS_SYNC));
            shown("msync", x);
            result(x);
            said("populate", madvise(p, 12288, 23 /* MADV_POPULATE_WRITE */));
            said("populate", madvise(p + 8192, 12288, 22 /* MADV_POPULATE_READ */));
            shown("populated", x);
            result(x);
            said("huge", madvise(x, BYTES, MADV_HUGEPAGE) == 0 || errno == EINVAL);
            said("not huge", madvise(x, BYTES, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
            shown("huge", x);
            result(x);
            said("cold", madvise(x, BYTES, 20 /* MADV_COLD */));
            said("paged out", madvise(x, BYTES, 21 /* MADV_PAGEOUT */));
            said("wanted", madvise(x, BYTES, MADV_WILLNEED));
            said("in order", madvise(x, BYTES, MADV_SEQUENTIAL));
            said("at random", madvise(x, BYTES, MADV_RANDOM));
            said("as ever", madvise(x, BYTES, MADV_NORMAL));
            said("not dumped", madvise(x, BYTES, MADV_DONTDUMP));
            said("posix", posix_madvise(x, BYTES, POSIX_MADV_WILLNEED));
            shown("advised", x);
            result(x);
            said("removed", madvise(x, BYTES, MADV_REMOVE));
            shown("not removed", x);
            result(x);
            said("free", madvise(p + 4096, 8192, MADV_FREE));
            fill((double *)(p + 4096), 1024); /* Until the page is written, both values are allowed. */
            shown("freed", x);
            result(x);
            said("discarded", madvise(p + 8192, 4096, MADV_DONTNEED));
            shown("discarded", x);
            /* Not mapped in the child: the memory behind it must be accessible there all the same. */
            result(x);
            said("not in children", madvise(p + 8192, 4096, MADV_DONTFORK));
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                alarm(300);
                _exit((hash(x, 1024) + hash(x + 1536, NN - 1536)) & 127);
            }
            int status = 0;
            waitpid(child, &status, 0);
            said("the child", status);
            said("in children", madvise(p + 8192, 4096, MADV_DOFORK));
            shown("in children", x);
            result(x);
            said("wiped in children", madvise(p + 8192, 4096, 18 /* MADV_WIPEONFORK */));
            fflush(stdout);
            child = fork();
            if (child == 0) {
                alarm(300);
                _exit(hash(x, NN) & 127);
            }
            waitpid(child, &status, 0);
            said("the child", status);
            said("kept in children", madvise(p + 8192, 4096, 19 /* MADV_KEEPONFORK */));
            shown("kept in children", x);
            result(x);
            said("guarded", mprotect(p + 4096, 4096, PROT_NONE));
            said("write of what is guarded", pwrite(file, p + 4096, 10, 0));
            show("around", x, 512);
            said("read-only", mprotect(p + 4096, 4096, PROT_READ));
            said("read into what is read-only", pread(file, p + 4096, 10, 0));
            input(x);
            show("read-only", d, NN);
            said("open", mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE));
            result(x);
            shown("open again", x);
            result(x);
            said("pkey_mprotect", pkey_mprotect(p, BYTES, PROT_READ | PROT_WRITE, -1));
            shown("pkey_mprotect", x);
        }
        result(m);
        said("fixed and not replacing", mmap(m, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
        shown("not replaced", m);
        result(m);
        if (mmap((char *)m + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            exit(2);
        shown("shared in the middle", m);
        result(m);
        shown("shared in the middle of a result", m);
        result(e);
        if (mmap((char *)e + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            exit(2);
        shown("mapped over the heap's", e);
        munmap(m, 2 * BYTES);
        free(e);
        e = doubles(NN);
        fill(e, NN);
    }
    result(e);
    said("mlockall", mlockall(MCL_CURRENT));
    shown("all locked", e);
    result(e);
    shown("all locked", e);
    said("munlockall", munlockall());
}

static int changed;

/* BLAS calls and mapping calls that succeed leave errno as it is, also where they wait for another thread. */
static void *beside_others(void *unused)
{
    (void)unused;
    double *x = calloc(3 * NN, sizeof *x);
    for (int i = 0; i < NN; i++)
        x[i] = x[NN + i] = i % 7;
    for (int round = 0; round < 100; round++) {
        errno = ENOTTY;
        multiply(N, 1, x, x + NN, 0, x + 2 * NN);
        if (errno != ENOTTY)
            __atomic_fetch_add(&changed, 1, __ATOMIC_RELAXED);
        double *m = map(BYTES);
        memcpy(m, x + NN, BYTES);
        errno = ENOTTY;
        multiply(N, 1, x, m, 0, x + 2 * NN);
        mprotect(m, BYTES, PROT_READ);
        munmap(m, BYTES);
        if (errno != ENOTTY)
            __atomic_fetch_add(&changed, 1, __ATOMIC_RELAXED);
    }
    free(x);
    return NULL;
}

static void errno_beside_others(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, beside_others, NULL))
            exit(2);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("errno changed %d times\n", changed);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begun(argv[1], "mappings"))
        return 2;
    moved_off();
    discarded_and_moved();
    advised_and_protected();
    closed();
    errno_beside_others();
    return 0;
}
