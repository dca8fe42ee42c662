/* The cost of a small call through the preloaded library, compared with a direct call of the host BLAS: alternating
 * batches, difference of the minima, in nanoseconds and in calls of an empty function by a pointer on this machine.
 * Prints "<name> direct <ns> through <ns> difference <ns> is <calls>". */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

typedef void gemm_t(const char *, const char *, const int *, const int *, const int *, const double *,
                    const double *, const int *, const double *, const int *, const double *, double *,
                    const int *, long, long);
typedef double dot_t(const int *, const double *, const int *, const double *, const int *);
typedef void rot_t(const int *, double *, const int *, double *, const int *, const double *, const double *);
typedef void trsm_t(const char *, const char *, const char *, const char *, const int *, const int *,
                    const double *, const double *, const int *, double *, const int *, long, long, long, long);
extern gemm_t dgemm_;
extern trsm_t dtrsm_;
extern dot_t ddot_;
extern rot_t drot_;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static const int n = 4, one = 1, calls = 20000;
static const double alpha = 1, beta = 0;
static double a[16], b[16], c[16];

static double batch_gemm(gemm_t *f) {
  double t = now();
  for (int i = 0; i < calls; i++) f("N", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
  return (now() - t) / calls;
}
static double batch_trsm(trsm_t *f) {
  double t = now();
  for (int i = 0; i < calls; i++) f("L", "U", "N", "U", &n, &n, &alpha, a, &n, c, &n, 1, 1, 1, 1);
  return (now() - t) / calls;
}
static double batch_dot(dot_t *f) {
  double t = now();
  for (int i = 0; i < calls; i++) c[0] += f(&n, a, &one, b, &one);
  return (now() - t) / calls;
}
static double batch_rot(rot_t *f) {
  double t = now();
  for (int i = 0; i < calls; i++) f(&n, a, &one, b, &one, &alpha, &beta);
  return (now() - t) / calls;
}

static void __attribute__((noinline)) nothing(void) { __asm__ volatile(""); }
static double batch_nothing(void (*volatile f)(void)) {
  double t = now();
  for (int i = 0; i < calls; i++) f();
  return (now() - t) / calls;
}
static double unit = 1e9;

#define COMPARE(name, batch, direct, through)                                                     \
  do {                                                                                            \
    double lo[2] = {1e9, 1e9};                                                                    \
    for (int i = 0; i < 60; i++) {                                                                \
      double t = batch(i & 1 ? through : direct), u = batch_nothing(nothing);                     \
      if (t < lo[i & 1]) lo[i & 1] = t;                                                           \
      if (u < unit) unit = u;                                                                     \
    }                                                                                             \
    printf("%s direct %.2f through %.2f difference %.2f is %.2f\n", name, lo[0], lo[1],           \
           lo[1] - lo[0], (lo[1] - lo[0]) / unit);                                                \
  } while (0)

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  void *host = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!host) return 3;
  gemm_t *gemm = (gemm_t *)dlsym(host, "dgemm_");
  trsm_t *trsm = (trsm_t *)dlsym(host, "dtrsm_");
  dot_t *dot = (dot_t *)dlsym(host, "ddot_");
  rot_t *rot = (rot_t *)dlsym(host, "drot_");
  COMPARE("dgemm", batch_gemm, gemm, dgemm_);
  COMPARE("dtrsm", batch_trsm, trsm, dtrsm_);
  COMPARE("ddot", batch_dot, dot, ddot_);
  COMPARE("drot", batch_rot, rot, drot_);
  return 0;
}
