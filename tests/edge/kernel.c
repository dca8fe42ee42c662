/* System calls that read inaccessible results and write cached inputs, by other ways than those of tests/edge/files.c:
 * vectors with flags, messages in numbers, other processes' memory, queues, numbers of system calls, small
 * structures.
 *
 *   kernel DIRECTORY */
#define _GNU_SOURCE
#include <dirent.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "io.h"

/* A new input that devices hold, which begins with a number. */
static double *untouched(long number)
{
    double *new = doubles(NN);
    fill(new, NN);
    *(long *)new = number;
    ((long *)new)[1] = 0;
    input(new);
    return new;
}

static void vectors(void)
{
    struct iovec v[12];
    for (int i = 0; i < 12; i++)
        v[i] = (struct iovec){(char *)e + 2700 * i, 2000};
    fresh(1);
    said("pwritev2", pwritev2(file, v, 12, 5, 0));
    contents("pwritev2");
    fresh(1);
    said("pwritev2 at the position", pwritev2(file, v, 12, -1, 0));
    contents("pwritev2");
    for (int way = 0; way < 2; way++) {
        prepare();
        fresh(way);
        said("preadv2", preadv2(file, v, 12, 4095, 0));
        shown("preadv2", e);
        fresh(way);
        said("preadv2 at the position", preadv2(file, v, 12, -1, 0));
        shown("preadv2", e);
        fresh(way);
        said("preadv2 refused", preadv2(file, v, 12, 0, 1 << 30));
        shown("preadv2 refused", e);
    }
    contents("source");
    /* The vector lies in a result itself. */
    fresh(1);
    show("seen", e, NN);
    memcpy(e, v, sizeof v);
    struct iovec *w = (struct iovec *)e;
    w[0] = (struct iovec){(char *)b, 5000};
    multiply(N, 1, a, b, 1, d);
    dscal_(&(int){512}, &(double){2}, e + 3000, &(int){1});
    said("writev by a vector in a result", writev(file, w, 1));
    contents("writev by a vector in a result");
}

static void descriptors(void)
{
    int pipes[2], out = open(directory, O_TMPFILE | O_RDWR, 0600);
    if (pipe(pipes) || fcntl(pipes[1], F_SETPIPE_SZ, 1 << 17) < 0 || out < 0)
        exit(2);
    /* vmsplice takes the pages: they must be the newest. */
    fresh(1);
    struct iovec v = {e, BYTES};
    said("vmsplice", vmsplice(pipes[1], &v, 1, 0));
    int more[2];
    if (pipe(more) || fcntl(more[1], F_SETPIPE_SZ, 1 << 17) < 0)
        exit(2);
    said("tee", tee(pipes[0], more[1], BYTES, 0));
    said("splice", splice(pipes[0], NULL, file, NULL, BYTES, 0));
    contents("splice");
    for (int way = 0; way < 2; way++) {
        if (way) {
            fresh(1);
            said("write to the pipe", write(more[1], e, BYTES));
        }
        fresh(way);
        said("read from the pipe", read(more[0], e, BYTES));
        shown("read from the pipe", e);
    }
    /* A copy from file to file touches no memory of this process; the files hold the bytes of the results. */
    fresh(1);
    said("pwrite", pwrite(file, e, BYTES, 0));
    lseek(file, 0, SEEK_SET);
    said("sendfile", sendfile(out, file, NULL, BYTES));
    off_t from = 8, to = BYTES;
    said("copy_file_range", copy_file_range(file, &from, out, &to, BYTES - 8, 0));
    for (int way = 0; way < 2; way++) {
        fresh(way);
        said("read of the copy", pread(out, e, BYTES, 16));
        shown("the copy", e);
    }
    contents("source");
    close(out);
    close(pipes[0]);
    close(pipes[1]);
    close(more[0]);
    close(more[1]);
}

/* The other end of a socket. */
static void *drain(void *fd)
{
    static char bytes[2 * BYTES];
    uint64_t h = 0;
    long n, all = 0;
    while ((n = read(*(int *)fd, bytes, sizeof bytes)) > 0) {
        all += n;
        for (long i = 0; i < n; i++)
            h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
    }
    printf("drained %ld %016llx\n", all, (unsigned long long)h);
    return NULL;
}

static void messages(void)
{
    int fd[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) || pthread_create(&thread, NULL, drain, &fd[1]))
        exit(2);
    struct iovec v[3] = {{(char *)e + 1, 9001}, {(char *)e + 12288, 4096}, {e, 5}};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 2}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 2}}};
    fresh(1);
    said("sendmmsg", sendmmsg(fd[0], m, 2, 0));
    printf("%u %u\n", m[0].msg_len, m[1].msg_len);
    fresh(1);
    said("sendmsg", sendmsg(fd[0], &m[0].msg_hdr, 0));
    fresh(1);
    said("sendto", sendto(fd[0], e, BYTES, 0, NULL, 0));
    fresh(1);
    said("sendfile", pwrite(file, e, BYTES, 0));
    off_t from = 100;
    said("sendfile", sendfile(fd[0], file, &from, BYTES - 100));
    shutdown(fd[0], SHUT_WR);
    pthread_join(thread, NULL);
    close(fd[0]);
    close(fd[1]);
    contents("after sendfile");

    /* Datagrams, with addresses and control data; the headers lie in cached memory, too. */
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0semcache-edge"};
    snprintf(name.sun_path + 1, 60, "semcache-edge-%d", (int)getpid());
    int one = socket(AF_UNIX, SOCK_DGRAM, 0), other = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (bind(one, (struct sockaddr *)&name, sizeof name) || connect(other, (struct sockaddr *)&name, sizeof name))
        exit(2);
    setsockopt(one, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < 3; i++)
            if (send(other, (char *)b + 100 * i, 6000 + i, 0) != 6000 + i)
                exit(2);
        struct iovec into[3];
        char control[3][256];
        struct mmsghdr many[3];
        memset(many, 0, sizeof many);
        for (int i = 0; i < 3; i++) {
            into[i] = (struct iovec){(char *)e + 7000 * i + 3, 6500};
            many[i].msg_hdr = (struct msghdr){.msg_iov = &into[i], .msg_iovlen = 1, .msg_control = control[i], .msg_controllen = 256};
        }
        fresh(way);
        said("recvmmsg", recvmmsg(one, many, 3, 0, NULL));
        for (int i = 0; i < 3; i++)
            printf("%u %zu %d\n", many[i].msg_len, many[i].msg_hdr.msg_controllen, many[i].msg_hdr.msg_flags);
        shown("recvmmsg", e);

        if (send(other, b, 6000, 0) != 6000)
            exit(2);
        fresh(way);
        struct msghdr *header = (struct msghdr *)(e + 2048);
        *header = (struct msghdr){.msg_iov = &into[1], .msg_iovlen = 1, .msg_name = e + 2100, .msg_namelen = 110,
            .msg_control = e + 2200, .msg_controllen = 256};
        multiply(N, 1, e, b, 0, d); /* Devices hold the header. */
        said("recvmsg with everything in an input", recvmsg(one, header, 0));
        printf("%zu %d %d\n", header->msg_controllen, header->msg_flags, ((struct cmsghdr *)(e + 2200))->cmsg_type);
        memset(e + 2048, 0, 8 * 400); /* Pointers differ from run to run. */
        shown("recvmsg", e);

        if (send(other, b, 6000, 0) != 6000)
            exit(2);
        fresh(way);
        socklen_t *length = (socklen_t *)(e + 2048);
        *length = 8 * 14;
        input(e);
        said("recvfrom", recvfrom(one, (char *)e + 9, 7000, 0, (struct sockaddr *)(e + 2050), length));
        shown("recvfrom", e);
    }
    /* The field that the kernel writes last lies on pages without other data: the kernel has taken the datagram by
     * then. */
    if (send(other, b, 6000, 0) != 6000 || send(other, b, 6001, 0) != 6001)
        exit(2);
    char message[6500];
    struct sockaddr_un sender;
    struct iovec into = {message, sizeof message};
    struct mmsghdr header = {.msg_hdr = {.msg_iov = &into, .msg_iovlen = 1}};
    double *last = untouched(sizeof sender);
    said("recvfrom, length elsewhere", recvfrom(one, message, sizeof message, 0, (struct sockaddr *)&sender, (socklen_t *)last));
    shown("recvfrom, length elsewhere", last);
    last = untouched(5);
    said("recvmmsg, time elsewhere", recvmmsg(one, &header, 1, 0, (struct timespec *)last));
    printf("%u\n", header.msg_len);
    /* A socket tells its error once. */
    int closed = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(closed, (struct sockaddr *)&nobody, sizeof nobody))
        poll(&(struct pollfd){.fd = closed, .events = POLLOUT}, 1, 5000);
    last = untouched(0);
    said("SO_ERROR", getsockopt(closed, SOL_SOCKET, SO_ERROR, last, &(socklen_t){sizeof(int)}));
    printf("%d\n", *(int *)last);
    close(closed);
    close(one);
    close(other);

    int queue = msgget(IPC_PRIVATE, 0600);
    if (queue >= 0) {
        for (int way = 0; way < 2; way++) {
            fresh(1);
            *(long *)e = 5;
            dscal_(&(int){512}, &(double){2}, e + 1024, &(int){1});
            said("msgsnd", msgsnd(queue, e, 8000, 0));
            fresh(way);
            said("msgrcv", msgrcv(queue, e, 8100, 0, 0));
            shown("msgrcv", e);
        }
        msgctl(queue, IPC_RMID, NULL);
    }

    char posix[64];
    snprintf(posix, sizeof posix, "/semcache-edge-%d", (int)getpid());
    mqd_t messages = mq_open(posix, O_CREAT | O_RDWR, 0600, &(struct mq_attr){.mq_maxmsg = 2, .mq_msgsize = 6000});
    if (messages != -1) {
        mq_unlink(posix);
        last = untouched(0);
        said("mq_send", mq_send(messages, message, 6000, 7));
        said("mq_receive", mq_receive(messages, message, 6000, (unsigned *)last));
        shown("mq_receive", last);
        mq_close(messages);
    }
}

static int differs(const void *x, size_t n)
{
    const unsigned char *p = x;
    size_t same = 0;
    for (size_t i = 1; i < n; i++)
        same += p[i] == p[i - 1];
    return same < n / 4;
}

static void others(void)
{
    struct iovec mine = {e, BYTES}, theirs = {c, BYTES};
    for (int way = 0; way < 2; way++) {
        result(c);
        fresh(way);
        said("process_vm_readv of ourselves", process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0));
        shown("process_vm_readv", e);
        result(c);
        fresh(way);
        said("process_vm_writev of ourselves", process_vm_writev(getpid(), &theirs, 1, &mine, 1, 0));
        shown("process_vm_writev", e);
        fresh(way);
        said("getrandom", getrandom((char *)e + 8000, 256, 0));
        printf("random: %d\n", differs((char *)e + 8000, 256));
        show("  around", e, 1000);
        fresh(way);
        said("getrandom of much", getrandom(e, BYTES, 0));
        printf("random: %d\n", differs(e, BYTES));
        fresh(way);
        said("getentropy", getentropy((char *)e + 8000, 256));
        printf("random: %d\n", differs((char *)e + 8000, 256));
        show("  around", e, 1000);
#if __GLIBC__ > 2 || __GLIBC_MINOR__ >= 36
        fresh(way);
        arc4random_buf((char *)e + 8000, 9000);
        printf("random: %d\n", differs((char *)e + 8000, 9000));
        show("  around", e, 1000);
#endif
    }
    /* Read from another process: the preload needs no hook there, only the bytes count. */
    fill(c, NN);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        result(e);
        long n = process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0);
        _exit(n == BYTES && memcmp(e, c, BYTES) == 0 ? 3 : errno);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("a child reads: %d\n", WEXITSTATUS(status));
}

static void by_number(void)
{
    struct iovec v[2] = {{(char *)e + 100, 9000}, {(char *)e + 20000, 5}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    struct mmsghdr mm = {.msg_hdr = m};
    struct iovec theirs = {c, 10000};
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
        exit(2);
#define WRITES(number, ...)                                                                                            \
    do {                                                                                                               \
        fresh(1);                                                                                                      \
        lseek(file, 0, SEEK_SET);                                                                                      \
        said(#number, syscall(number, __VA_ARGS__));                                                                   \
        contents(#number);                                                                                             \
    } while (0)
#define READS(number, ...)                                                                                             \
    for (int way = 0; way < 2; way++) {                                                                                \
        prepare();                                                                                                     \
        fresh(way);                                                                                                    \
        said(#number, syscall(number, __VA_ARGS__));                                                                   \
        shown(#number, e);                                                                                             \
    }
    WRITES(SYS_write, file, e, BYTES);
    WRITES(SYS_pwrite64, file, e, BYTES, 7L);
    WRITES(SYS_writev, file, v, 2);
    WRITES(SYS_pwritev, file, v, 2, 9L, 0L);
    WRITES(SYS_pwritev2, file, v, 2, 9L, 0L, 0);
    READS(SYS_read, file, e, BYTES);
    READS(SYS_pread64, file, e, BYTES, 7L);
    READS(SYS_readv, file, v, 2);
    READS(SYS_preadv, file, v, 2, 9L, 0L);
    READS(SYS_preadv2, file, v, 2, 9L, 0L, 0);
    contents("source");
    for (int way = 0; way < 2; way++) {
        fresh(1);
        said("SYS_sendto", syscall(SYS_sendto, fd[0], e, 9000L, 0, NULL, 0L));
        fresh(way);
        said("SYS_recvfrom", syscall(SYS_recvfrom, fd[1], (char *)e + 1, 9000L, 0, NULL, NULL));
        shown("SYS_recvfrom", e);
        fresh(1);
        said("SYS_sendmsg", syscall(SYS_sendmsg, fd[0], &m, 0));
        fresh(way);
        said("SYS_recvmsg", syscall(SYS_recvmsg, fd[1], &m, 0));
        shown("SYS_recvmsg", e);
        fresh(1);
        said("SYS_sendmmsg", syscall(SYS_sendmmsg, fd[0], &mm, 1, 0));
        fresh(way);
        said("SYS_recvmmsg", syscall(SYS_recvmmsg, fd[1], &mm, 1, 0, NULL));
        shown("SYS_recvmmsg", e);
        result(c);
        fresh(way);
        said("SYS_process_vm_readv", syscall(SYS_process_vm_readv, getpid(), v, 2L, &theirs, 1L, 0L));
        shown("SYS_process_vm_readv", e);
        fresh(way);
        said("SYS_getrandom", syscall(SYS_getrandom, (char *)e + 8000, 100L, 0));
        show("  around", e, 1000);
    }
    /* Refusals are the program's own. */
    said("bad descriptor", syscall(SYS_read, -1, e, BYTES));
    said("bad address", syscall(SYS_write, file, (void *)8, 100L));
    said("no such call", syscall(100000L, 1L, 2L));
    said("six words", syscall(SYS_getpid, 1L, 2L, 3L, 4L, 5L, 6L) == getpid());
    /* Mappings by number. */
    double *map = (double *)syscall(SYS_mmap, NULL, (long)BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    for (int round = 0; round < 3; round++) {
        result(map);
        syscall(SYS_madvise, map, 8192L, MADV_DONTNEED);
        shown("SYS_madvise", map);
        result(map);
        map = (double *)syscall(SYS_mremap, map, (long)BYTES, 2L * BYTES, MREMAP_MAYMOVE, NULL);
        shown("SYS_mremap", map);
        result(map);
        syscall(SYS_mprotect, map, 4096L, PROT_READ);
        shown("SYS_mprotect", map);
        syscall(SYS_mprotect, map, 4096L, PROT_READ | PROT_WRITE);
        result(map);
        syscall(SYS_munmap, map, 2L * BYTES);
        /* At the same address, unless a thread of a library has mapped memory there. */
        map = (double *)syscall(SYS_mmap, map, (long)BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
        shown("SYS_mmap of nothing", map);
        result(map);
        syscall(SYS_mmap, map, 8192L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
        shown("SYS_mmap over the head", map);
    }
    syscall(SYS_munmap, map, (long)BYTES);
    close(fd[0]);
    close(fd[1]);
}

/* Small structures in the memory of matrices. */
static void structures(void)
{
    int fd[2], queue = epoll_create1(0);
    if (pipe(fd) || write(fd[1], "x", 1) != 1 || epoll_ctl(queue, EPOLL_CTL_ADD, fd[0], &(struct epoll_event){.events = EPOLLIN}))
        exit(2);
    prepare();
    char path[4096];
    snprintf(path, sizeof path, "%s/link", directory);
    unlink(path);
    if (symlink("where/to", path))
        exit(2);
    for (int way = 0; way < 2; way++) {
        struct stat *s = (struct stat *)(e + 600);
        long left;
        int told;
#define SMALL(what, call, value)                                                                                       \
    fresh(way);                                                                                                        \
    errno = 0;                                                                                                         \
    left = call;                                                                                                       \
    told = errno;                                                                                                      \
    said(what, left);                                                                                                  \
    printf("  %ld, errno %d\n", (long)(value), told);                                                                  \
    show("  before", e, 600);                                                                                          \
    show("  behind", e + 1536, NN - 1536)
        SMALL("fstat", fstat(file, s), s->st_size);
        SMALL("ioctl", ioctl(fd[0], FIONREAD, e + 700), *(int *)(e + 700));
        SMALL("stat", stat(directory, s), S_ISDIR(s->st_mode));
        SMALL("lstat", lstat(path, s), s->st_size);
        SMALL("fstatat", fstatat(AT_FDCWD, directory, s, 0), S_ISDIR(s->st_mode));
        struct statx *x = (struct statx *)s;
        SMALL("statx", statx(file, "", AT_EMPTY_PATH, STATX_SIZE, x), x->stx_size);
        struct statfs *f = (struct statfs *)s;
        SMALL("fstatfs", fstatfs(file, f), f->f_bsize);
        SMALL("statfs", statfs(directory, f), f->f_bsize);
        SMALL("uname", uname((struct utsname *)s), *(char *)s);
        SMALL("readlink", readlink(path, (char *)s, 1000), hash_bytes(s, 8));
        SMALL("readlinkat", readlinkat(AT_FDCWD, path, (char *)s, 1000), hash_bytes(s, 8));
        SMALL("getcwd", getcwd((char *)s, 4096) == (char *)s, *(char *)s == '/');
        SMALL("pipe", pipe((int *)s), ((int *)s)[0] != ((int *)s)[1]);
        close(((int *)s)[0]), close(((int *)s)[1]);
        SMALL("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)s), ((int *)s)[0] != ((int *)s)[1]);
        close(((int *)s)[0]), close(((int *)s)[1]);
        struct epoll_event *event = (struct epoll_event *)s;
        SMALL("epoll_wait", epoll_wait(queue, event, 4, 1000), event->events);
        /* The structures are arguments here: they are written, then devices hold them. */
        fresh(way);
        struct pollfd *p = (struct pollfd *)(e + 600);
        *p = (struct pollfd){.fd = fd[0], .events = POLLIN};
        input(e);
        said("poll", poll(p, 1, 1000));
        printf("  %d\n", p->revents);
        fresh(way);
        fd_set *set = (fd_set *)(e + 600);
        FD_ZERO(set);
        FD_SET(fd[0], set);
        FD_SET(fd[1], set);
        input(e);
        said("select", select(fd[1] + 1, set, NULL, NULL, &(struct timeval){1, 0}));
        printf("  %d %d\n", !!FD_ISSET(fd[0], set), !!FD_ISSET(fd[1], set));
        fresh(way);
        socklen_t *length = (socklen_t *)(e + 600);
        *length = 4;
        input(e);
        int socket_ = socket(AF_UNIX, SOCK_DGRAM, 0);
        said("getsockopt", getsockopt(socket_, SOL_SOCKET, SO_TYPE, e + 700, length));
        printf("  %d %d\n", *(int *)(e + 700), (int)*length);
        close(socket_);
        said("bad address", fstat(file, (void *)8));
    }
    unlink(path);
    contents("source");
    close(fd[0]);
    close(fd[1]);
    close(queue);
}

/* stdio with buffers of the program's, and large pieces. */
static void streams(void)
{
    FILE *f = fdopen(dup(file), "w+");
    static char own[8192];
    setvbuf(f, own, _IOFBF, sizeof own);
    fresh(1);
    said("fwrite", (long)fwrite(e, 1, BYTES, f));
    fresh(1);
    said("fwrite", (long)fwrite((char *)e + 5, 1, 5, f));
    fresh(1);
    said("fwrite behind", (long)fwrite((char *)e + 5, 1, BYTES - 5, f));
    rewind(f);
    for (int way = 0; way < 2; way++) {
        fresh(way);
        said("fread", (long)fread((char *)e + 3, 1, 10, f));
        shown("fread", e);
        fresh(way);
        said("fread of much", (long)fread((char *)e + 3, 1, BYTES - 10, f));
        shown("fread of much", e);
    }
    fclose(f);
    contents("streams");
    /* A string. */
    f = fdopen(dup(file), "w");
    fresh(1);
    show("seen", e, NN);
    memset(e, 'x', BYTES - 1);
    ((char *)e)[BYTES - 1] = 0;
    input(e);
    said("fputs", fputs((char *)e, f) >= 0);
    fresh(1);
    fclose(f);
    contents("fputs");
}

static void *reader(void *fd)
{
    /* Waits in a system call while other threads compute with the matrices around its buffer. */
    return (void *)read(*(int *)fd, (char *)e + 8, 6000);
}

static void waiting(void)
{
    for (int round = 0; round < 5; round++) {
        int fd[2];
        pthread_t thread;
        if (pipe(fd))
            exit(2);
        fresh(1);
        pthread_create(&thread, NULL, reader, &fd[0]);
        usleep(2000);
        for (int i = 0; i < 5; i++)
            input(e);
        if (write(fd[1], b, 6000) != 6000)
            exit(2);
        void *n;
        pthread_join(thread, &n);
        said("read meanwhile", (long)n);
        shown("read meanwhile", e);
        close(fd[0]);
        close(fd[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begun(argv[1], "kernel"))
        return 2;
    vectors();
    descriptors();
    messages();
    others();
    by_number();
    structures();
    streams();
    waiting();
    closed();
    return 0;
}
