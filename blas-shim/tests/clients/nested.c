/* The reference cblas_zgemv calls zgemv_ through the symbol that the preloaded library interposes. A call that was
 * passed to the host BLAS must not be offloaded when the host BLAS calls zgemv_ within it; a call from the same
 * library that is not made within another BLAS call must be offloaded. */
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
uint64_t semcache_test_builtin_calls(void);
uint64_t semcache_test_host_calls(int);
void cblas_zgemv(int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
void cblas_dgemv(int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
int main(void) {
  double complex a[4] = {1, 2 + I, 3, 4 - I}, x[2] = {1, I}, y[2] = {0}, one = 1, zero = 0;
  for (int i = 0; i < 10; i++) cblas_zgemv(101, 113, 2, 2, &one, a, 2, x, 1, &zero, y, 1);
  /* y = A^H x */
  if (y[0] != 1 + 3 * I || y[1] != 1 + 3 * I - 0 * I) printf("%g%+gi %g%+gi\n", creal(y[0]), cimag(y[0]), creal(y[1]), cimag(y[1]));
  int bad = semcache_test_builtin_calls() != 0;
  if (semcache_test_host_calls(1) != 10 || semcache_test_host_calls(5) != 10) bad |= 2;
  double b[4] = {1, 2, 3, 4}, u[2] = {1, 1}, v[2] = {0, 0};
  cblas_dgemv(101, 111, 2, 2, 1, b, 2, u, 1, 0, v, 1);
  if (v[0] != 3 || v[1] != 7 || semcache_test_builtin_calls() != 1) bad |= 4;
  printf("%d %lu nested %lu unsupported %lu\n", bad, semcache_test_builtin_calls(), semcache_test_host_calls(1), semcache_test_host_calls(5));
  return bad;
}
