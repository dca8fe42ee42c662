/* What happens while the host BLAS finishes a call that a device refused, or computes a part of one. With PROVIDER: a BLAS whose dgemm_ calls its own
 * dgemv_ by its exported name, after a hook of the client's. The client's modes:
 *
 *   door nested   dgemm alone
 *   door free     within dgemm_ no signal is blocked, the process forks, and another thread's call runs
 *   door jump     a handler leaves dgemm_ by a jump, and the call is made again */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PROVIDER
void (*door_hook)(int elements);
int isamax_(const int *n, const float *x, const int *inc) {
  int best = 0;
  for (int i = 1; i < *n; i++)
    if (x[i * *inc] > x[best * *inc]) best = i;
  return *n > 0 ? best + 1 : 0;
}
void dgemv_(const char *t, const int *m, const int *n, const double *al, const double *a, const int *lda, const double *x,
            const int *incx, const double *be, double *y, const int *incy) {
  for (int i = 0; i < *m; i++) {
    double sum = 0;
    for (int j = 0; j < *n; j++) sum += a[i + (long)j * *lda] * x[j * *incx];
    y[i * *incy] = *al * sum + (*be ? *be * y[i * *incy] : 0);
  }
}
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *al, const double *a,
            const int *lda, const double *b, const int *ldb, const double *be, double *c, const int *ldc) {
  int one = 1;
  if (door_hook) door_hook(*m * *n);
  for (int j = 0; j < *n; j++) dgemv_("N", m, k, al, a, lda, b + (long)j * *ldb, &one, be, c + (long)j * *ldc, &one);
}
#else
extern void (*door_hook)(int);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
enum { N = 64 };
typedef struct { double *a, *b, *c; } Call;
static Call made(int seed) {
  Call x = {malloc(sizeof(double[N * N])), malloc(sizeof(double[N * N])), malloc(sizeof(double[N * N]))};
  for (int i = 0; i < N * N; i++) x.a[i] = (i * 7 + seed) % 11 - 5, x.b[i] = (i * 5 + seed) % 7 - 3, x.c[i] = 0;
  return x;
}
static void multiply(Call x) {
  int n = N; double one = 1, zero = 0;
  dgemm_("N", "N", &n, &n, &n, &one, x.a, &n, x.b, &n, &zero, x.c, &n);
}
static int wrong(Call x) {
  int bad = 0;
  for (int j = 0; j < N; j++) for (int i = 0; i < N; i++) {
    double sum = 0;
    for (int k = 0; k < N; k++) sum += x.a[i + k * N] * x.b[k + j * N];
    bad += sum != x.c[i + j * N];
  }
  return bad;
}
static int problems, seen;
static pthread_t first;
static Call other;
static void *thread(void *x) { multiply(other); return x; }
/* The tasks of a call have fewer elements than the call. */
static void is_free(int elements) {
  if (elements == N * N || !pthread_equal(pthread_self(), first) || seen++) return;
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  for (int s = 1; s < 32; s++) problems += sigismember(&now, s);
  pid_t child = fork();
  if (!child) _exit(wrong(other) == 0);
  int status;
  problems += waitpid(child, &status, 0) != child || status;
  pthread_t t;
  problems += pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL) || wrong(other);
}
static sigjmp_buf out;
static void leave(int s) { siglongjmp(out, 1); }
static void raises(int elements) { if (elements != N * N && seen++ == 2) raise(SIGUSR1); }
int main(int argc, char **argv) {
  int jumped = 0;
  first = pthread_self();
  signal(SIGUSR1, leave);
  other = made(9);
  if (!strcmp(argv[1], "free")) door_hook = is_free;
  if (!strcmp(argv[1], "jump")) door_hook = raises;
  for (int round = 0; round < 6; round++) {
    Call x = made(round);
    if (sigsetjmp(out, 1)) jumped++;
    multiply(x);
    problems += wrong(x);
  }
  printf("%d problems, %d tasks, %d jumps\n", problems, seen, jumped);
  return problems != 0 || (door_hook && !seen) || jumped != (door_hook == raises);
}
#endif
