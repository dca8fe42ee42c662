/* gemmt, the batches, and sums and copies of matrices and vectors with work just below the floor and just at it, as
 * in floor.c; a batch is as small as its largest product. -DPROVIDER makes a host BLAS whose functions do nothing;
 * its integers have 64 bits, which only its names say. */
#include <stdint.h>
#include <stdio.h>
#define NAMES(X) X(dgemmt_64_) X(cblas_dgemmt64_) X(dgemm_batch_64_) X(cblas_dgemm_batch64_) X(dgemm_batch_strided_64_) \
  X(cblas_dgemm_batch_strided64_) X(daxpby_64_) X(cblas_daxpby64_) X(dgeadd_64_) X(cblas_dgeadd64_) X(domatcopy_64_) \
  X(cblas_domatcopy64_) X(dimatcopy_64_) X(cblas_dimatcopy64_)
#ifdef PROVIDER
#define DEFINE(x) void x() {}
NAMES(DEFINE)
#else
typedef void fn();
#define DECLARE(x) extern fn x;
NAMES(DECLARE)
extern uint64_t semcache_test_builtin_calls(void) __attribute__((weak)), semcache_test_host_calls(int reason) __attribute__((weak));
static double a[300000], b[300000], c[300000];
static int failures;
static uint64_t builtin, small;
static void check(const char *what, int large) {
  int ran = semcache_test_builtin_calls() - builtin, host = semcache_test_host_calls(0) - small;
  if (ran != (large ? 3 : 0) || host != (large ? 0 : 3)) {
    printf("%s: %d in the built-in BLAS, %d small\n", what, ran, host);
    failures++;
  }
  builtin = semcache_test_builtin_calls(), small = semcache_test_host_calls(0);
}
static void all(long n, long k, int large) {
  double one = 1, ones[2] = {1, 1};
  long zero = 0, two = 2, ns[2] = {1, n}, ks[2] = {1, k}, sizes[2] = {1, 1}, far = n * n;
  int ops[2] = {111, 111};
  void *pa[2] = {a, a}, *pb[2] = {b, b}, *pc[2] = {c + n * n, c};
  for (int i = 0; i < 3; i++) dgemmt_64_("U", "N", "T", &n, &k, &one, a, &n, b, &n, &one, c, &n, 1L, 1L, 1L);
  check("dgemmt", large);
  for (int i = 0; i < 3; i++)
    ((void (*)(int, int, int, int, long, long, double, void *, long, void *, long, double, void *, long))cblas_dgemmt64_)(
        102, 121, 111, 112, n, k, 1, a, n, b, n, 1, c, n);
  check("cblas_dgemmt", large);
  for (int i = 0; i < 3; i++) dgemm_batch_64_("NN", "TT", ns, ns, ks, ones, pa, ns, pb, ns, ones, pc, ns, &two, sizes, 1L, 1L);
  check("dgemm_batch", large);
  int turned[2] = {112, 112};
  for (int i = 0; i < 3; i++) cblas_dgemm_batch64_(102, ops, turned, ns, ns, ks, ones, pa, ns, pb, ns, ones, pc, ns, two, sizes);
  check("cblas_dgemm_batch", large);
  /* Groups without products do not count. */
  sizes[1] = 0;
  for (int i = 0; i < 3; i++) cblas_dgemm_batch64_(102, ops, turned, ns, ns, ks, ones, pa, ns, pb, ns, ones, pc, ns, two, sizes);
  check("cblas_dgemm_batch of little", 0);
  for (int i = 0; i < 3; i++) dgemm_batch_strided_64_("N", "T", &n, &n, &k, &one, a, &n, &zero, b, &n, &zero, &one, c, &n, &far, &two, 1L, 1L);
  check("dgemm_batch_strided", large);
  for (int i = 0; i < 3; i++)
    ((void (*)(int, int, int, long, long, long, double, void *, long, long, void *, long, long, double, void *, long, long, long))cblas_dgemm_batch_strided64_)(
        102, 111, 112, n, n, k, 1, a, n, 0, b, n, 0, 1, c, n, far, 2);
  check("cblas_dgemm_batch_strided", large);
}
static void sums(long m, long n, int large) {
  double two = 2;
  long one = 1, mn = m * n;
  for (int i = 0; i < 3; i++) dgeadd_64_(&m, &n, &two, a, &m, &two, c, &m);
  check("dgeadd", large);
  for (int i = 0; i < 3; i++)
    ((void (*)(int, long, long, double, void *, long, double, void *, long))cblas_dgeadd64_)(102, m, n, 2, a, m, 2, c, m);
  check("cblas_dgeadd", large);
  for (int i = 0; i < 3; i++) domatcopy_64_("C", "T", &m, &n, &two, a, &m, c, &n, 1L, 1L);
  check("domatcopy", large);
  for (int i = 0; i < 3; i++)
    ((void (*)(int, int, long, long, double, void *, long, void *, long))cblas_domatcopy64_)(101, 112, m, n, 2, a, n, c, m);
  check("cblas_domatcopy", large);
  for (int i = 0; i < 3; i++) dimatcopy_64_("R", "N", &m, &n, &two, c, &n, &n, 1L, 1L);
  check("dimatcopy", large);
  for (int i = 0; i < 3; i++)
    ((void (*)(int, int, long, long, double, void *, long, long))cblas_dimatcopy64_)(102, 111, m, n, 2, c, m, m);
  check("cblas_dimatcopy", large);
  /* A call on vectors must have more elements than one on matrices. */
  mn = mn * 3 / 2;
  for (int i = 0; i < 3; i++) daxpby_64_(&mn, &two, a, &one, &two, c, &one);
  check("daxpby", large);
  for (int i = 0; i < 3; i++) ((void (*)(long, double, void *, long, double, void *, long))cblas_daxpby64_)(mn, 2, a, 1, 2, c, 1);
  check("cblas_daxpby", large);
}
int main(void) {
  if (!semcache_test_builtin_calls) return 2;
  builtin = semcache_test_builtin_calls(), small = semcache_test_host_calls(0);
  sums(256, 256, 1); sums(257, 255, 0);
  all(160, 160, 1); all(160, 159, 0); all(16, 16000, 1); all(16, 15999, 0); all(320, 40, 1);
  printf("%d failures\n", failures);
  return failures != 0;
}
#endif
