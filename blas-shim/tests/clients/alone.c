/* Names that no library defines, and names of functions of the program's own. */
#include <stdint.h>
#include <stdio.h>
#ifdef OWN
/* As in introductions to vector code: with other arguments than the BLAS's saxpy. */
void saxpy(int n, float a, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] += a * x[i];
}
float sdot(const float *x, const float *y, int n, double a, double b, double c, double d) {
  return n + a + b + c + d;
}
#else
double cblas_damin(int, ...);
void saxpy(int, float, const float *, float *);
float sdot(const float *, const float *, int, double, double, double, double);
int main(void) {
  for (int i = 0; i < 3; i++)
    if (cblas_damin(1, 2.0) != 0) return 1;
  static float x[100000], y[100000];
  for (int i = 0; i < 100000; i++) x[i] = 1;
  for (int i = 0; i < 3; i++) saxpy(100000, 2, x, y);
  if (y[0] != 6 || y[99999] != 6) return 2;
  for (int i = 0; i < 3; i++)
    if (sdot(x, y, 5, 1, 2, 3, 4) != 15) return 3;
  return 0;
}
#endif
