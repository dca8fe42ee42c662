/* Properties of the hooked libc functions that programs rely on. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#undef assert
#define assert(x) do { if (!(x)) { printf("line %d: %s (errno %d)\n", __LINE__, #x, errno); exit(1); } } while (0)

static sigjmp_buf out;
static int seen;
static void on_signal(int s) { seen = s; }
static void on_fault(int s, siginfo_t *i, void *c) { siglongjmp(out, s); }

static void signals(int wrapped) {
  struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
  sigfillset(&sa.sa_mask);
  assert(sigaction(SIGSEGV, &sa, &old) == 0 && old.sa_handler == SIG_DFL);
  assert(sigaction(SIGSEGV, 0, &old) == 0 && old.sa_sigaction == on_fault);
  for (int i = 0; i < 3; i++) {
    char *page = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int s = sigsetjmp(out, 1);
    if (!s) { *(volatile char *)page = 1; assert(0); }
    assert(s == SIGSEGV && munmap(page, 8192) == 0);
  }
  assert(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
  assert(signal(SIGUSR1, on_signal) == SIG_DFL && raise(SIGUSR1) == 0 && seen == SIGUSR1);
  assert(signal(SIGUSR1, SIG_IGN) == on_signal);
  assert(sigaction(SIGKILL, &sa, 0) == -1 && errno == EINVAL && signal(999, on_signal) == SIG_ERR);

  sigset_t all, now;
  sigfillset(&all);
  assert(sigprocmask(SIG_SETMASK, &all, 0) == 0 && sigprocmask(SIG_SETMASK, 0, &now) == 0);
  assert(sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV) == !wrapped && sigismember(&now, SIGBUS) == !wrapped);
  assert(sigismember(&all, SIGSEGV)); /* the program's own set is untouched */
  sigemptyset(&all);
  assert(pthread_sigmask(SIG_SETMASK, &all, &all) == 0 && sigismember(&all, SIGUSR1));
  assert(pthread_sigmask(99, &all, 0) == EINVAL);
}

static void memory(void) {
  void *p;
  errno = 0;
  assert(posix_memalign(&p, 3, 10) == EINVAL && posix_memalign(&p, 4, 10) == EINVAL && errno == 0);
  assert(posix_memalign(&p, 4096, 100) == 0 && (uintptr_t)p % 4096 == 0);
  free(p);
  size_t sizes[] = {0, 1, 100, 1 << 20, (1 << 20) + 1, 5 << 20};
  for (int i = 0; i < 6; i++) {
    char *q = malloc(sizes[i]);
    assert(q && malloc_usable_size(q) >= sizes[i]);
    memset(q, 7, sizes[i]);
    q = realloc(q, 2 * sizes[i] + 16);
    assert(q && (!sizes[i] || q[sizes[i] - 1] == 7));
    free(q);
    q = calloc(sizes[i], 3);
    for (size_t k = 0; k < 3 * sizes[i]; k += 777) assert(!q[k]);
    free(q);
    q = memalign(1 << 16, sizes[i]); assert((uintptr_t)q % (1 << 16) == 0); free(q);
    q = aligned_alloc(64, sizes[i]); assert((uintptr_t)q % 64 == 0); free(q);
    q = valloc(sizes[i]); assert((uintptr_t)q % sysconf(_SC_PAGESIZE) == 0); free(q);
    q = pvalloc(sizes[i]); assert((uintptr_t)q % sysconf(_SC_PAGESIZE) == 0); free(q);
  }
  errno = 0;
  volatile size_t huge = SIZE_MAX / 2;
  assert(!reallocarray(0, huge, 3) && errno == ENOMEM);
  errno = 0;
  assert(!calloc(huge, 3) && errno == ENOMEM && !malloc(huge));
  free(0);
  malloc_trim(0);

  size_t page = sysconf(_SC_PAGESIZE);
  char *m = mmap(0, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert(m != MAP_FAILED);
  m[0] = 5; m[3 * page] = 6;
  m = mremap(m, 4 * page, 64 * page, MREMAP_MAYMOVE);
  assert(m != MAP_FAILED && m[0] == 5 && m[3 * page] == 6);
  assert(mprotect(m, page, PROT_READ) == 0 && madvise(m + page, page, MADV_DONTNEED) == 0);
  errno = 0;
  assert(posix_madvise(m + 1, page, POSIX_MADV_WILLNEED) == EINVAL && errno == 0);
  assert(posix_madvise(m, page, POSIX_MADV_DONTNEED) == 0 && m[0] == 5);
  assert(madvise(m, page, 9999) == -1 && errno == EINVAL);
  assert(munmap(m, 64 * page) == 0);
  errno = 0;
  assert(munmap((void *)1, page) == -1 && errno == EINVAL);
  errno = 0;
  assert(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

static void io(void) {
  /* The X are mkstemp's template. */
  char name[] = "/tmp/semcacheXXXXXX", a[64] = "hello, world", b[64] = {0};
  int fd = mkstemp(name);
  unlink(name);
  assert(write(fd, a, 13) == 13 && pread(fd, b, 5, 7) == 5 && !strcmp(b, "world"));
  struct iovec v[2] = {{a, 3}, {a + 7, 5}}, w[2] = {{b, 4}, {b + 10, 4}};
  assert(pwrite(fd, "J", 1, 0) == 1 && lseek(fd, 0, SEEK_SET) == 0 && readv(fd, w, 2) == 8 && !memcmp(b, "Jell", 4));
  assert(lseek(fd, 0, SEEK_SET) == 0 && writev(fd, v, 2) == 8);
  assert(read(-1, b, 1) == -1 && errno == EBADF && read(fd, (void *)8, 1) == -1 && errno == EFAULT);
  FILE *f = fdopen(fd, "r+");
  rewind(f);
  assert(fread(b, 1, 8, f) == 8 && !memcmp(b, "helworld", 8) && fwrite(a, 4, 2, f) == 2 && fflush(f) == 0);
  fclose(f);
  int s[2];
  assert(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && send(s[0], a, 5, 0) == 5 && recv(s[1], b, 64, 0) == 5);
  struct msghdr out = {.msg_iov = v, .msg_iovlen = 2}, in = {.msg_iov = w, .msg_iovlen = 2};
  assert(sendmsg(s[0], &out, 0) == 8 && recvmsg(s[1], &in, 0) == 8 && sendto(s[0], a, 2, 0, 0, 0) == 2);
  assert(recvfrom(s[1], b, 64, 0, 0, 0) == 2);
}

static int cleaned;
static void clean(void *p) { cleaned = 1; }
static void *blocked(void *fds) {
  char c;
  pthread_cleanup_push(clean, 0);
  (void)read(((int *)fds)[0], &c, 1);
  pthread_cleanup_pop(0);
  return 0;
}
static void cancel(void) {
  int fds[2];
  pthread_t t;
  void *r;
  assert(pipe(fds) == 0 && pthread_create(&t, 0, blocked, fds) == 0);
  usleep(20000);
  assert(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0 && r == PTHREAD_CANCELED && cleaned);
}

int main(int argc, char **argv) {
  signals(argc > 1);
  memory();
  io();
  cancel();
  pid_t child = fork();
  if (!child) { memory(); _exit(0); }
  int status;
  assert(waitpid(child, &status, 0) == child && status == 0);
  return 0;
}
