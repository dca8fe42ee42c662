/* The kernel reads results and writes inputs while the program runs: io_uring, libaio and POSIX AIO, by their libraries
 * and by number.
 *
 *   asynchronous DIRECTORY */
#define _GNU_SOURCE
#include <aio.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "io.h"

/* As the libraries do it, but by number: without liburing and libaio. */
static void ring(void)
{
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (fd < 0) {
        /* Not where the kernel or the container forbids it. */
        printf("io_uring: done\n");
        return;
    }
    size_t length = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t other = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(NULL, length > other ? length : other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
    char *cq = p.features & IORING_FEAT_SINGLE_MMAP
        ? sq
        : mmap(NULL, other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, p.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
    for (int way = 0; way < 3; way++) {
        fresh(way != 0);
        unsigned *tail = (unsigned *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask);
        struct io_uring_sqe *entry = &entries[*tail & mask];
        memset(entry, 0, sizeof *entry);
        entry->opcode = way == 2 ? IORING_OP_WRITE : IORING_OP_READ;
        entry->fd = file;
        entry->addr = (uintptr_t)e;
        entry->len = BYTES;
        ((unsigned *)(sq + p.sq_off.array))[*tail & mask] = *tail & mask;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        long n = syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0L);
        unsigned *head = (unsigned *)(cq + p.cq_off.head);
        struct io_uring_cqe *done = &((struct io_uring_cqe *)(cq + p.cq_off.cqes))[*head & *(unsigned *)(cq + p.cq_off.ring_mask)];
        if (n != 1 || done->res != BYTES)
            printf("io_uring: %ld %d\n", n, done->res);
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
        shown("io_uring", e);
    }
    close(fd);
    printf("io_uring: done\n");
}

static void asynchronous(void)
{
    /* Made inaccessible before the process is known to use asynchronous I/O. */
    fresh(1);
    double *kept = doubles(NN);
    result(kept);
    for (int way = 0; way < 2; way++) {
        prepare();
        fresh(way);
        struct aiocb request = {.aio_fildes = file, .aio_buf = e, .aio_nbytes = BYTES, .aio_offset = 16};
        const struct aiocb *list[1] = {&request};
        said("aio_read", aio_read(&request));
        while (aio_error(&request) == EINPROGRESS)
            aio_suspend(list, 1, NULL);
        said("aio_return", aio_return(&request));
        shown("aio_read", e);
        fresh(1);
        said("aio_write", aio_write(&request));
        while (aio_error(&request) == EINPROGRESS)
            aio_suspend(list, 1, NULL);
        said("aio_return", aio_return(&request));
        contents("aio_write");
        prepare();
        fresh(way);
        struct aiocb *many[1] = {&request};
        request.aio_lio_opcode = LIO_READ;
        said("lio_listio", lio_listio(LIO_WAIT, many, 1, NULL));
        said("aio_return", aio_return(&request));
        shown("lio_listio", e);
        ring();
        /* libaio's system calls. */
        prepare();
        unsigned long context = 0;
        fresh(way);
        said("io_setup", syscall(SYS_io_setup, 4, &context));
        struct {
            uint64_t data;
            uint32_t key, flags;
            uint16_t opcode;
            int16_t priority;
            uint32_t fd;
            uint64_t buffer, bytes;
            int64_t offset;
            uint64_t reserved;
            uint32_t more, event;
        } control = {.opcode = 0 /* read */, .fd = (uint32_t)file, .buffer = (uintptr_t)e, .bytes = BYTES}, *controls[1] = {&control};
        said("io_submit", syscall(SYS_io_submit, context, 1L, controls));
        uint64_t events[4];
        said("io_getevents", syscall(SYS_io_getevents, context, 1L, 1L, events, NULL));
        said("bytes", (long)events[2]);
        shown("io_submit", e);
        syscall(SYS_io_destroy, context);
        contents("source");
    }
    show("closed before", kept, NN);
    result(kept);
    show("never closed", kept, NN);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begun(argv[1], "asynchronous"))
        return 2;
    asynchronous();
    closed();
    return 0;
}
