/* The host BLAS reports illegal arguments to the program's own xerbla_, which leaves the call by longjmp. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
void dgemm_(), cblas_dgemm(), dsymm_();
static jmp_buf out;
static int info;
void xerbla_(const char *name, const int *i, long len) {
  info = *i;
  longjmp(out, 1);
}
int main(void) {
  int n = 200, bad = 1, zero = 0;
  static double a[200 * 200], b[200 * 200], c[200 * 200];
  double one = 1;
  for (int i = 0; i < 200 * 200; i++) a[i] = b[i] = i % 5;
  for (int i = 0; i < 2000; i++) {
    info = 0;
    if (!setjmp(out)) {
      if (i % 2) dgemm_("N", "N", &n, &n, &n, &one, a, &bad, b, &n, &one, c, &n, 1L, 1L);
      else dgemm_("X", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n, 1L, 1L);
      printf("came back\n");
      return 1;
    }
    if (info != (i % 2 ? 8 : 1)) {
      printf("parameter %d\n", info);
      return 1;
    }
    int four = 4;
    c[0] = 0;
    dgemm_("N", "N", &four, &four, &four, &one, a, &n, b, &n, &one, c, &n, 1L, 1L);
    if (c[0] != 0 * 0 + 0 * 1 + 0 * 2 + 0 * 3) return 1;
  }
  return 0;
}
