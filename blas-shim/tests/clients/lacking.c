/* axpby, geadd, omatcopy and imatcopy of a program whose BLAS, like all other libraries of the process, has none of
 * them: the preloaded library computes them on the calling thread. Built once per width of integers: INT. A call
 * that devices do not compute (here: an in-place transposition of a matrix that is not square) changes nothing. */
#include <stdio.h>
#include <string.h>

/* An integer followed by other bits: reading 64 bits of a 32-bit integer gives another number. */
typedef union { INT v; int half[4]; } I;
static I mk(long v) { I i = {.half = {-1, -1, -1, -1}}; i.v = (INT)v; return i; }

extern void dgemm_(), daxpby_(), dgeadd_(), domatcopy_(), dimatcopy_();
static int failures;
static void check(const char *what, const double *got, const double *want, int n) {
  for (int i = 0; i < n; i++)
    if (got[i] != want[i]) printf("WRONG %s: number %d is %g, not %g\n", what, i, got[i], want[i]), failures++;
}
int main(void) {
  double two = 2, three = 3, zero = 0;
  double a[6] = {1, 2, 3, 4, 5, 6}, c[6] = {1, 1, 1, 1, 1, 1}, b[6];
  I one = mk(1), back = mk(-1), m = mk(3), n = mk(2), six = mk(6);
  /* The program has a BLAS. */
  dgemm_("N", "N", &one, &one, &one, &two, a, &one, a, &one, &three, c, &one, 1L, 1L);
  check("dgemm", c, (double[]){5, 1, 1, 1, 1, 1}, 6);
  daxpby_(&six, &two, a, &back, &three, c, &one);
  check("daxpby", c, (double[]){27, 13, 11, 9, 7, 5}, 6);
  daxpby_(&six, &zero, a, &one, &two, c, &one);
  check("daxpby of nothing", c, (double[]){54, 26, 22, 18, 14, 10}, 6);
  /* With 32-bit integers the length would be six. */
  if (sizeof(INT) == 8) {
    I less = mk(6 - (1L << 32));
    daxpby_(&less, &two, a, &one, &two, c, &one);
    check("daxpby of less than nothing", c, (double[]){54, 26, 22, 18, 14, 10}, 6);
  }
  dgeadd_(&m, &n, &two, a, &m, &zero, c, &m);
  check("dgeadd", c, (double[]){2, 4, 6, 8, 10, 12}, 6);
  domatcopy_("C", "T", &m, &n, &three, a, &m, b, &n, 1L, 1L);
  check("domatcopy", b, (double[]){3, 12, 6, 15, 9, 18}, 6);
  domatcopy_("R", "N", &m, &n, &zero, a, &n, b, &n, 1L, 1L);
  check("domatcopy of nothing", b, (double[]){0, 0, 0, 0, 0, 0}, 6);
  dimatcopy_("C", "T", &n, &n, &two, a, &n, &n, 1L, 1L);
  check("dimatcopy", a, (double[]){2, 6, 4, 8, 5, 6}, 6);
  dimatcopy_("C", "T", &m, &n, &two, a, &m, &n, 1L, 1L);
  check("dimatcopy of what is not square", a, (double[]){2, 6, 4, 8, 5, 6}, 6);
  printf("%d failures\n", failures);
  return failures != 0;
}
