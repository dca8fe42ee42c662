/* Calls of level 3 with work just below the floor and just at it: the former run on the host BLAS without being
 * decoded, the latter on the shim's built-in BLAS. Every call is made three times from one site, so that the stub
 * decides in assembly, too. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void fn();
extern uint64_t semcache_test_builtin_calls(void) __attribute__((weak)), semcache_test_host_calls(int reason) __attribute__((weak));
extern fn F(dsymm), F(dsyrk), F(dsyr2k), F(dtrmm), F(dtrsm), F(zhemm), F(zherk);
extern fn F(dsymv), F(dtrmv), F(zher), F(dsyr2);
#ifdef CBLAS
extern void C(dsymm)(int, int, int, INT, INT, double, double *, INT, double *, INT, double, double *, INT);
extern void C(dsyrk)(int, int, int, INT, INT, double, double *, INT, double, double *, INT);
extern void C(dsymv)(int, int, INT, double, double *, INT, double *, INT, double, double *, INT);
extern void C(dtrmv)(int, int, int, int, INT, double *, INT, double *, INT);
extern void C(dtrsm)(int, int, int, int, int, INT, INT, double, double *, INT, double *, INT);
#endif

enum { MOST = 300000 };
static double a[MOST], b[MOST], c[MOST];
static int failures;
static uint64_t builtin, small;
static void begin(void) { builtin = semcache_test_builtin_calls(); small = semcache_test_host_calls(0); }
static void check(const char *what, long m, long n, int large) {
  int ran = semcache_test_builtin_calls() - builtin, host = semcache_test_host_calls(0) - small;
  if (ran != (large ? 3 : 0) || host != (large ? 0 : 3)) {
    printf("%s %ld %ld: %d in the built-in BLAS, %d small\n", what, m, n, ran, host);
    failures++;
  }
}
static long max(long x, long y) { return x > y ? x : y; }

/* m x n with a matrix of order m (left) or n */
static void square(int left, long m, long n, int large) {
  INT mi = m, ni = n, lda = left ? m : n, ld = m;
  double al[2] = {1, 0}, be[2] = {1, 0};
  const char *side = left ? "L" : "r";
  begin(); for (int i = 0; i < 3; i++) F(dsymm)(side, "U", &mi, &ni, al, a, &lda, b, &ld, be, c, &ld, 1L, 1L);
  check("dsymm", m, n, large);
  if (2 * m * n <= MOST && 2 * lda * lda <= MOST) {
    begin(); for (int i = 0; i < 3; i++) F(zhemm)(side, "U", &mi, &ni, al, a, &lda, b, &ld, be, c, &ld, 1L, 1L);
    check("zhemm", m, n, large);
  }
  begin(); for (int i = 0; i < 3; i++) F(dtrmm)(side, "U", "N", "U", &mi, &ni, al, a, &lda, c, &ld, 1L, 1L, 1L, 1L);
  check("dtrmm", m, n, large);
  begin(); for (int i = 0; i < 3; i++) F(dtrsm)(side, "U", "N", "U", &mi, &ni, al, a, &lda, c, &ld, 1L, 1L, 1L, 1L);
  check("dtrsm", m, n, large);
#ifdef CBLAS
  begin(); for (int i = 0; i < 3; i++) C(dsymm)(102, left ? 141 : 142, 121, m, n, 1, a, lda, b, m, 1, c, m);
  check("cblas_dsymm", m, n, large);
  begin(); for (int i = 0; i < 3; i++) C(dtrsm)(102, left ? 141 : 142, 121, 111, 132, m, n, 1, a, lda, c, m);
  check("cblas_dtrsm", m, n, large);
  begin(); for (int i = 0; i < 3; i++) C(dtrsm)(101, left ? 141 : 142, 121, 111, 132, m, n, 1, a, lda, c, n);
  check("cblas_dtrsm by rows", m, n, large);
#endif
}
static void rank_k(long n, long k, int large) {
  INT ni = n, ki = k;
  double al[2] = {1, 0}, be[2] = {1, 0};
  begin(); for (int i = 0; i < 3; i++) F(dsyrk)("U", "N", &ni, &ki, al, a, &ni, be, c, &ni, 1L, 1L);
  check("dsyrk", n, k, large);
  begin(); for (int i = 0; i < 3; i++) F(dsyr2k)("U", "N", &ni, &ki, al, a, &ni, b, &ni, be, c, &ni, 1L, 1L);
  check("dsyr2k", n, k, large);
  if (2 * max(n, k) * n <= MOST) {
    begin(); for (int i = 0; i < 3; i++) F(zherk)("U", "N", &ni, &ki, al, a, &ni, be, c, &ni, 1L, 1L);
    check("zherk", n, k, large);
  }
#ifdef CBLAS
  begin(); for (int i = 0; i < 3; i++) C(dsyrk)(102, 121, 111, n, k, 1, a, n, 1, c, n);
  check("cblas_dsyrk", n, k, large);
#endif
}

/* n x n with vectors */
static void vectors(long n, int large) {
  INT ni = n, one = 1;
  double al[2] = {1, 0}, be[2] = {1, 0};
  begin(); for (int i = 0; i < 3; i++) F(dsymv)("U", &ni, al, a, &ni, b, &one, be, c, &one, 1L);
  check("dsymv", n, n, large);
  begin(); for (int i = 0; i < 3; i++) F(dtrmv)("U", "N", "U", &ni, a, &ni, c, &one, 1L, 1L, 1L);
  check("dtrmv", n, n, large);
  begin(); for (int i = 0; i < 3; i++) F(zher)("U", &ni, al, b, &one, a, &ni, 1L);
  check("zher", n, n, large);
  begin(); for (int i = 0; i < 3; i++) F(dsyr2)("U", &ni, al, b, &one, c, &one, a, &ni, 1L);
  check("dsyr2", n, n, large);
#ifdef CBLAS
  begin(); for (int i = 0; i < 3; i++) C(dsymv)(102, 121, n, 1, a, n, b, 1, 1, c, 1);
  check("cblas_dsymv", n, n, large);
  begin(); for (int i = 0; i < 3; i++) C(dtrmv)(101, 121, 111, 132, n, a, n, c, 1);
  check("cblas_dtrmv", n, n, large);
#endif
}

int main(void) {
  /* The floor is 160 * 160 * 160. */
  square(1, 160, 160, 1); square(0, 160, 160, 1);
  square(1, 160, 159, 0); square(1, 159, 160, 0);
  square(0, 160, 159, 0); square(0, 159, 160, 0);
  square(1, 16, 16000, 1); square(1, 16, 15999, 0);
  square(0, 16000, 16, 1); square(0, 15999, 16, 0);
  square(1, 4, 4, 0); square(1, 1, 70000, 0); square(0, 70000, 1, 0);
  rank_k(160, 160, 1); rank_k(160, 159, 0); rank_k(16, 16000, 1); rank_k(16, 15999, 0); rank_k(320, 40, 1); rank_k(4, 4, 0);
  /* The floor of level 2 is 256 * 256. */
  vectors(256, 1); vectors(255, 0); vectors(3, 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
