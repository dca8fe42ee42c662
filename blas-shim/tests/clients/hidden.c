/* A BLAS that returns complex numbers through a hidden first argument, and floats as doubles (f2c). */
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
typedef float complex cf;
typedef double complex cd;
#ifdef PROVIDER
#define DOT(name, T, C)                                                                            \
  void name(T *ret, const int *n, const T *x, const int *ix, const T *y, const int *iy) {          \
    T s = 0;                                                                                       \
    for (int i = 0; i < *n; i++) s += C(x[i * *ix]) * y[i * *iy];                                  \
    *ret = s;                                                                                      \
  }
DOT(cdotu_, cf, ) DOT(zdotu_, cd, ) DOT(cdotc_, cf, conjf) DOT(zdotc_, cd, conj)
double sdot_(const int *n, const float *x, const int *ix, const float *y, const int *iy) {
  double s = 0;
  for (int i = 0; i < *n; i++) s += x[i * *ix] * y[i * *iy];
  return s;
}
int isamax_(const int *n, const float *x, const int *ix) {
  int best = 0;
  for (int i = 0; i < *n; i++)
    if (!best || x[i] > x[best - 1]) best = i + 1;
  return best;
}
#else
void cdotu_(), zdotu_(), cdotc_(), zdotc_();
double sdot_();
uint64_t semcache_test_builtin_calls(void);
uint64_t semcache_test_host_calls(int);
int main(void) {
  cf x[3] = {1 + 2 * I, 3, -1 * I}, y[3] = {2, 1 - 1 * I, 4}, r = 9;
  cd u[3] = {1 + 2 * I, 3, -1 * I}, v[3] = {2, 1 - 1 * I, 4}, q = 9;
  float f[2] = {2, 3};
  int n = 3, one = 1, two = 2, bad = 0;
  /* Four calls from four sites; some conventions also return the address of the result. */
  cdotu_(&r, &n, x, &one, y, &one);
  bad |= r != 5 - 3 * I;
  cdotc_(&r, &n, x, &one, y, &one);
  bad |= r != 5 - 3 * I;
  zdotu_(&q, &n, u, &one, v, &one);
  bad |= (q != 5 - 3 * I) << 1;
  zdotc_(&q, &n, u, &one, v, &one);
  bad |= (q != 5 - 3 * I) << 2;
  if (semcache_test_builtin_calls() != 4) { printf("%lu ran\n", semcache_test_builtin_calls()); bad |= 8; }
  /* A float that is returned as a double: the call runs on the host BLAS. */
  if (sdot_(&two, f, &one, f, &one) != 13) bad |= 16;
  if (semcache_test_builtin_calls() != 4 || semcache_test_host_calls(2) != 1) bad |= 32;
  printf("%d: %g%+gi %g%+gi\n", bad, creal(r), cimag(r), creal(q), cimag(q));
  return bad;
}
#endif
