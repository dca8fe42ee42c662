/* gemmt, gemmtr, gemm3m, gemm_batch and gemm_batch_strided in one family of spellings, compared with gemm of
 * OpenBLAS (LP64, opened privately): a batch is a loop of gemm calls, a gemmt one triangle of a gemm; axpby, and
 * with -DMATRICES geadd, omatcopy and imatcopy, compared with plain loops. The data are small integers, so every
 * result is exact; elements that a call must neither read nor write are NaN. Built once per family:
 *   INT    integer type            F(x)  Fortran name       C(x)  CBLAS name, if CBLAS is defined
 * The second argument, if given, is the least number of calls that the shim's built-in BLAS must have computed. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern uint64_t semcache_test_builtin_calls(void) __attribute__((weak));

typedef void fn();
enum { LD = 61, COLS = 60, SZ = LD * COLS, MATS = 8 };

/* An integer followed by other bits: reading 64 bits of a 32-bit integer gives another number. */
typedef union { INT v; int half[4]; } I;
static I mk(long v) { I i = {.half = {-1, -1, -1, -1}}; i.v = (INT)v; return i; }

typedef struct { char letter; int wide, complex, bytes; } Type;
static const Type TYPES[4] = {{'s', 0, 0, 4}, {'d', 1, 0, 8}, {'c', 0, 1, 8}, {'z', 1, 1, 16}};
static const Type *t;
static int type, failures, calls;
static fn *gemm, *cgemm;
static char *a, *b, *c, *d; /* MATS matrices each; d is the expected c */
static double al[2], be[2];
static char what[200];

static void put(void *x, long i, double re, double im) {
  if (t->wide) { double *p = x; if (t->complex) p[2 * i] = re, p[2 * i + 1] = im; else p[i] = re; }
  else { float *p = x; if (t->complex) p[2 * i] = re, p[2 * i + 1] = im; else p[i] = re; }
}
static void get(const void *x, long i, double v[2]) {
  long at = t->complex ? 2 * i : i;
  for (int k = 0; k < 2; k++) v[k] = k > t->complex ? 0 : t->wide ? ((const double *)x)[at + k] : ((const float *)x)[at + k];
}
/* Element i of d := x * (element j of from) + y * (element i of c); the element of from is conjugated if `conj`. */
static void sum(long i, const double *x, const void *from, long j, int conj, const double *y) {
  double v[2], w[2], re = 0, im = 0;
  get(from, j, v), get(c, i, w);
  if (conj) v[1] = -v[1];
  if (x[0] || x[1]) re += x[0] * v[0] - x[1] * v[1], im += x[0] * v[1] + x[1] * v[0];
  if (y[0] || y[1]) re += y[0] * w[0] - y[1] * w[1], im += y[0] * w[1] + y[1] * w[0];
  put(d, i, re, im);
}
static char *mat(char *x, int i) { return x + (size_t)i * SZ * t->bytes; }
static void fill(char *x, int seed) {
  for (long i = 0; i < (long)SZ * MATS; i++) put(x, i, (i * 7 + seed + i / 11) % 7 - 3, (i * 5 + seed) % 5 - 2);
}
/* New numbers; in half of the cases the CPU overwrites matrices of which devices still hold copies. */
static void reset(int beta_zero) {
  static int turn;
  if (turn++ % 2 == 0) fill(a, turn % 13), fill(b, turn % 17);
  fill(c, 3);
  put(al, 0, 2, 1);
  put(be, 0, beta_zero ? 0 : 3, beta_zero ? 0 : -1);
}
static void same(void) { memcpy(d, c, (size_t)SZ * MATS * t->bytes); }
static void check(void) {
  calls++;
  if (!memcmp(c, d, (size_t)SZ * MATS * t->bytes)) return;
  for (long i = 0; i < (long)SZ * MATS * (1 + t->complex); i++) {
    double x = t->wide ? ((double *)c)[i] : ((float *)c)[i], y = t->wide ? ((double *)d)[i] : ((float *)d)[i];
    if (x == y || (isnan(x) && isnan(y))) continue;
    printf("WRONG %s: number %ld is %g, not %g\n", what, i, x, y);
    failures++;
    return;
  }
}

/* The reference: Fortran's gemm, or the C interface's for matrices stored by rows. */
#define REF(x, T, A)                                                                                               \
  static void x(int o, int ta, int tb, int m, int n, int k, void *al, void *a, int la, void *b, int lb, void *be,  \
                void *c, int lc) {                                                                                 \
    ((void (*)(int, int, int, int, int, int, T, void *, int, void *, int, T, void *, int))cgemm)(                  \
        o, ta, tb, m, n, k, A(al), a, la, b, lb, A(be), c, lc);                                                    \
  }
#define FLOAT(x) *(float *)(x)
#define DOUBLE(x) *(double *)(x)
#define POINTER(x) (void *)(x)
REF(ref_s, float, FLOAT) REF(ref_d, double, DOUBLE) REF(ref_z, void *, POINTER)
static void ref(int o, int ta, int tb, int m, int n, int k, void *a, void *b, void *c) {
  (t->complex ? ref_z : t->wide ? ref_d : ref_s)(o, ta, tb, m, n, k, al, a, LD, b, LD, be, c, LD);
}
static int code(char op) { return op == 'N' ? 111 : op == 'T' ? 112 : 113; }

#define A4(r) {F(s##r), F(d##r), F(c##r), F(z##r)}
#define E4(r) extern fn F(s##r), F(d##r), F(c##r), F(z##r);
E4(gemmt) E4(gemmtr) E4(gemm_batch) E4(gemm_batch_strided)
extern fn F(cgemm3m), F(zgemm3m);
static fn *const GEMMT[2][4] = {A4(gemmt), A4(gemmtr)}, *const BATCH[4] = A4(gemm_batch), *const STRIDED[4] = A4(gemm_batch_strided);
static fn *const GEMM3M[4] = {0, 0, F(cgemm3m), F(zgemm3m)};
#ifdef CBLAS
#define CA4(r) {C(s##r), C(d##r), C(c##r), C(z##r)}
#define CE4(r) extern fn C(s##r), C(d##r), C(c##r), C(z##r);
CE4(gemmt) CE4(gemmtr) CE4(gemm_batch) CE4(gemm_batch_strided)
extern fn C(cgemm3m), C(zgemm3m);
static fn *const CGEMMT[2][4] = {CA4(gemmt), CA4(gemmtr)}, *const CBATCH[4] = CA4(gemm_batch), *const CSTRIDED[4] = CA4(gemm_batch_strided);
static fn *const CGEMM3M[4] = {0, 0, C(cgemm3m), C(zgemm3m)};
#define TYPED(x, T, A)                                                                                             \
  static void t_##x(fn *f, int o, int u, int ta, int tb, INT n, INT k) {                                           \
    ((void (*)(int, int, int, int, INT, INT, T, void *, INT, void *, INT, T, void *, INT))f)(                      \
        o, u, ta, tb, n, k, A(al), a, LD, b, LD, A(be), c, LD);                                                    \
  }                                                                                                                \
  static void s_##x(fn *f, int o, int ta, int tb, INT m, INT n, INT k, INT sa, INT sb, INT sc, INT count) {        \
    ((void (*)(int, int, int, INT, INT, INT, T, void *, INT, INT, void *, INT, INT, T, void *, INT, INT, INT))f)(  \
        o, ta, tb, m, n, k, A(al), a, LD, sa, b, LD, sb, A(be), c, LD, sc, count);                                 \
  }
TYPED(s, float, FLOAT) TYPED(d, double, DOUBLE) TYPED(z, void *, POINTER)
#endif

/* One triangle of a product; with order 0 the Fortran routine is called. */
static void gemmt(int name, int order, char uplo, char ta, char tb, int n, int k, int beta_zero) {
  snprintf(what, sizeof what, "%cgemmt%s %d %c %c%c %d %d", t->letter, name ? "r" : "", order, uplo, ta, tb, n, k);
  reset(beta_zero);
  int upper = (uplo == 'U') == (order != 101);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++)
      if ((upper ? i > j : i < j) || beta_zero) put(c, i + (long)j * LD, NAN, NAN);
  same();
  /* The product of the whole square in another buffer, then the triangle of it. */
  char *aside = malloc((size_t)SZ * t->bytes);
  for (int i = 0; i < SZ; i++) put(aside, i, 0, 0);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++)
      if (upper ? i <= j : i >= j) memcpy(aside + (i + j * LD) * t->bytes, c + (i + j * LD) * t->bytes, t->bytes);
  ref(order ? order : 102, code(ta), code(tb), n, n, k, a, b, aside);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++)
      if (upper ? i <= j : i >= j) memcpy(d + (i + j * LD) * t->bytes, aside + (i + j * LD) * t->bytes, t->bytes);
  free(aside);
  if (!order) {
    I in = mk(n), ik = mk(k), il = mk(LD);
    GEMMT[name][type](&uplo, &ta, &tb, &in, &ik, al, a, &il, b, &il, be, c, &il, 1L, 1L, 1L);
  }
#ifdef CBLAS
  else (t->complex ? t_z : t->wide ? t_d : t_s)(CGEMMT[name][type], order, uplo == 'U' ? 121 : 122, code(ta), code(tb), n, k);
#endif
  check();
}

static void gemm3m(int order, char ta, char tb) {
  snprintf(what, sizeof what, "%cgemm3m %d %c%c", t->letter, order, ta, tb);
  reset(0);
  same();
  ref(order ? order : 102, code(ta), code(tb), 33, 21, 17, a, b, d);
  if (!order) {
    I m = mk(33), n = mk(21), k = mk(17), l = mk(LD);
    GEMM3M[type](&ta, &tb, &m, &n, &k, al, a, &l, b, &l, be, c, &l, 1L, 1L);
  }
#ifdef CBLAS
  else ((void (*)(int, int, int, INT, INT, INT, void *, void *, INT, void *, INT, void *, void *, INT))CGEMM3M[type])(
      order, code(ta), code(tb), 33, 21, 17, al, a, LD, b, LD, be, c, LD);
#endif
  check();
}

/* Three groups of products. `how`: 0 plain, 1 an illegal size in the last group, 2 two results in one place, 3 an input
 * that is a result, 4 no groups, 5 a product of nothing that scales. */
static void batch(int order, char ta, char tb, int how) {
  snprintf(what, sizeof what, "%cgemm_batch %d %c%c %d", t->letter, order, ta, tb, how);
  reset(0);
  INT m[3] = {40, 5, how == 1 ? -1 : 20}, n[3] = {30, 5, 50}, k[3] = {25, 5, how == 5 ? 0 : 35}, ld[3] = {LD, LD, LD};
  INT size[3] = {2, 0, 3}, count = how == 4 ? 0 : 3;
  char fa[3] = {ta, 'X', tb}, fb[3] = {tb, 'N', ta};
  int ca[3] = {code(ta), 111, code(tb)}, cb[3] = {code(tb), 111, code(ta)};
  fa[1] = 'n';
  char alphas[48], betas[48];
  for (int g = 0; g < 3; g++) put(alphas, g, 2, 1), put(betas, g, g == 2 && how != 5 ? 0 : 3, 0);
  void *pa[5], *pb[5], *pc[5];
  for (int i = 0; i < 5; i++) pa[i] = mat(a, i % 3), pb[i] = mat(b, i), pc[i] = mat(c, 6 - i);
  if (how == 2) pc[1] = pc[0];
  if (how == 3) pa[4] = pc[0];
  if (how == 0) for (long i = 0; i < LD * 18; i++) put(mat(c, 3), i, NAN, NAN); /* overwritten, as far as it is used */
  same();
  int next = 0;
  if (how != 1)
    for (int g = 0; g < count; g++)
      for (int i = 0; i < size[g]; i++, next++) {
        char x[16], y[16];
        memcpy(al, alphas + g * t->bytes, t->bytes), memcpy(be, betas + g * t->bytes, t->bytes);
        void *in = how == 3 && next == 4 ? d + ((char *)pa[4] - c) : pa[next];
        ref(order ? order : 102, ca[g], cb[g], m[g], n[g], k[g], in, pb[next], d + ((char *)pc[next] - c));
      }
  if (!order) {
    I ic = mk(count);
    BATCH[type](fa, fb, m, n, k, alphas, pa, ld, pb, ld, betas, pc, ld, &ic, size, 1L, 1L);
  }
#ifdef CBLAS
  else ((void (*)(int, int *, int *, INT *, INT *, INT *, void *, void **, INT *, void **, INT *, void *, void **, INT *, INT, INT *))CBATCH[type])(
      order, ca, cb, m, n, k, alphas, pa, ld, pb, ld, betas, pc, ld, count, size);
#endif
  check();
}

static void strided(int order, char ta, char tb, int shared, int count) {
  snprintf(what, sizeof what, "%cgemm_batch_strided %d %c%c %d %d", t->letter, order, ta, tb, shared, count);
  reset(shared);
  same();
  long sa = shared ? 0 : SZ, sb = SZ, sc = SZ;
  int m = 44, n = 31, k = 26;
  for (int i = 0; i < count; i++)
    ref(order ? order : 102, code(ta), code(tb), m, n, k, a + i * sa * t->bytes, b + i * sb * t->bytes, d + i * sc * t->bytes);
  if (!order) {
    I im = mk(m), in = mk(n), ik = mk(k), il = mk(LD), ia = mk(sa), ib = mk(sb), is = mk(sc), ic = mk(count);
    STRIDED[type](&ta, &tb, &im, &in, &ik, al, a, &il, &ia, b, &il, &ib, be, c, &il, &is, &ic, 1L, 1L);
  }
#ifdef CBLAS
  else (t->complex ? s_z : t->wide ? s_d : s_s)(CSTRIDED[type], order, code(ta), code(tb), m, n, k, sa, sb, sc, count);
#endif
  check();
}

E4(axpby)
static fn *const AXPBY[4] = A4(axpby);
#ifdef CBLAS
CE4(axpby)
static fn *const CAXPBY[4] = CA4(axpby);
#define VECTORS(x, T, A)                                                                                    \
  static void v_##x(fn *f, INT n, INT incx, INT incy) {                                                     \
    ((void (*)(INT, T, void *, INT, T, void *, INT))f)(n, A(al), a, incx, A(be), c, incy);                  \
  }
VECTORS(s, float, FLOAT) VECTORS(d, double, DOUBLE) VECTORS(z, void *, POINTER)
#endif

/* `zero`: 0 neither scalar, 1 alpha, 2 beta, 3 both. Operands that must not be read then are NaN. */
static void scalars(int zero, double *x, double *y) {
  if (zero & 1) put(al, 0, 0, 0);
  if (zero & 2) put(be, 0, 0, 0);
  get(al, 0, x), get(be, 0, y);
}
static void nothing(char *x) {
  for (long i = 0; i < SZ; i++) put(x, i, NAN, NAN);
}
static void axpby(int order, int n, int incx, int incy, int zero) {
  snprintf(what, sizeof what, "%caxpby %d %d %d %d %d", t->letter, order, n, incx, incy, zero);
  double x[2], y[2];
  reset(0);
  scalars(zero, x, y);
  if (zero == 1) nothing(a);
  if (zero == 2) nothing(c);
  same();
  for (long i = 0; i < n; i++)
    sum((incy < 0 ? i - n + 1 : i) * incy, x, a, (incx < 0 ? i - n + 1 : i) * incx, 0, y);
  if (!order) {
    I in = mk(n), ix = mk(incx), iy = mk(incy);
    AXPBY[type](&in, al, a, &ix, be, c, &iy);
  }
#ifdef CBLAS
  else (t->complex ? v_z : t->wide ? v_d : v_s)(CAXPBY[type], n, incx, incy);
#endif
  check();
  if (zero == 1) fill(a, 5);
}

#ifdef MATRICES
E4(geadd) E4(omatcopy) E4(imatcopy)
static fn *const GEADD[4] = A4(geadd), *const OMATCOPY[4] = A4(omatcopy), *const IMATCOPY[4] = A4(imatcopy);
#ifdef CBLAS
CE4(geadd) CE4(omatcopy) CE4(imatcopy)
static fn *const CGEADD[4] = CA4(geadd), *const COMATCOPY[4] = CA4(omatcopy), *const CIMATCOPY[4] = CA4(imatcopy);
#define COPIES(x, T, A)                                                                                     \
  static void a_##x(fn *f, int o, INT m, INT n, INT la, INT lc) {                                           \
    ((void (*)(int, INT, INT, T, void *, INT, T, void *, INT))f)(o, m, n, A(al), a, la, A(be), c, lc);      \
  }                                                                                                         \
  static void o_##x(fn *f, int o, int op, INT m, INT n, INT la, INT lb) {                                   \
    ((void (*)(int, int, INT, INT, T, void *, INT, void *, INT))f)(o, op, m, n, A(al), a, la, c, lb);       \
  }                                                                                                         \
  static void i_##x(fn *f, int o, int op, INT m, INT n, INT la, INT lb) {                                   \
    ((void (*)(int, int, INT, INT, T, void *, INT, INT))f)(o, op, m, n, A(al), c, la, lb);                  \
  }
COPIES(s, float, FLOAT) COPIES(d, double, DOUBLE) COPIES(z, void *, POINTER)
#endif

static void geadd(int order, int m, int n, int zero) {
  snprintf(what, sizeof what, "%cgeadd %d %d %d %d", t->letter, order, m, n, zero);
  double x[2], y[2];
  reset(0);
  scalars(zero, x, y);
  if (zero == 1) nothing(a);
  for (int i = 0; i < m; i++)
    for (int j = 0; zero == 2 && j < n; j++) put(c, order == 101 ? (long)i * LD + j : i + (long)j * LD, NAN, NAN);
  same();
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      long at = order == 101 ? (long)i * LD + j : i + (long)j * LD;
      sum(at, x, a, at, 0, y);
    }
  if (!order) {
    I im = mk(m), in = mk(n), il = mk(LD);
    GEADD[type](&im, &in, al, a, &il, be, c, &il);
  }
#ifdef CBLAS
  else (t->complex ? a_z : t->wide ? a_d : a_s)(CGEADD[type], order, m, n, LD, LD);
#endif
  check();
  if (zero == 1) fill(a, 5);
}

/* With a zero alpha some libraries read the matrix and some do not, so the matrix holds numbers. omatcopy, or
 * imatcopy with the result's leading dimension; a negative order is a matrix by rows in Fortran. */
static void copied(int order, char op, int m, int n, int in_place, int ldb, int zero) {
  snprintf(what, sizeof what, "%c%cmatcopy %d %c %d %d %d %d", t->letter, in_place ? 'i' : 'o', order, op, m, n, ldb, zero);
  double x[2], y[2], none[2] = {0, 0};
  reset(0);
  scalars(zero, x, y);
  same();
  int rows = order == 101 || order < 0, turned = op == 'T' || op == 'C';
  for (long i = 0; i < m; i++)
    for (long j = 0; j < n; j++) {
      long from = rows ? i * LD + j : i + j * LD, r = turned ? j : i, s = turned ? i : j;
      sum(rows ? r * ldb + s : r + s * ldb, x, in_place ? c : a, from, op == 'C' || op == 'R', none);
    }
  char letter = rows ? 'R' : 'C';
  I im = mk(m), in = mk(n), il = mk(LD), ib = mk(ldb);
  if (order <= 0 && in_place) IMATCOPY[type](&letter, &op, &im, &in, al, c, &il, &ib, 1L, 1L);
  else if (order <= 0) OMATCOPY[type](&letter, &op, &im, &in, al, a, &il, c, &ib, 1L, 1L);
#ifdef CBLAS
  else {
    int trans = op == 'R' ? 114 : code(op);
    if (in_place) (t->complex ? i_z : t->wide ? i_d : i_s)(CIMATCOPY[type], order, trans, m, n, LD, ldb);
    else (t->complex ? o_z : t->wide ? o_d : o_s)(COMATCOPY[type], order, trans, m, n, LD, ldb);
  }
#endif
  check();
}

static void matrices(const int *orders, int count) {
  static const int SIZES[][2] = {{1, 1}, {5, 4}, {33, 50}, {50, 7}, {48, 48}};
  for (int o = -1; o < count; o++)
    for (unsigned s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
      int order = o < 0 ? -1 : orders[o], m = SIZES[s][0], n = SIZES[s][1];
      for (int zero = 0; zero < 4; zero++) {
        if (o >= 0) geadd(order, m, n, zero);
        if (zero > 1) continue;
        for (const char *op = "NTCR"; *op; op++) {
          copied(order, *op, m, n, 0, 57, zero);
          copied(order, *op, m, n, 1, LD, zero);
          copied(order, *op, m, n, 1, 57, zero);
        }
      }
    }
}
#endif

int main(int argc, char **argv) {
  void *host = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
  if (!host) return 2;
#ifdef CBLAS
  static const int ORDERS[] = {0, 101, 102};
#else
  static const int ORDERS[] = {0};
#endif
  static const char OPS[] = "NTC";
  static const int SIZES[][2] = {{5, 4}, {1, 3}, {47, 33}, {33, 50}, {0, 2}, {37, 0}};
  for (type = 0; type < 4; type++) {
    t = &TYPES[type];
    char name[32];
    snprintf(name, sizeof name, "cblas_%cgemm", t->letter);
    if (!(cgemm = dlsym(host, name))) return 3;
    char **all[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++) *all[i] = malloc((size_t)SZ * MATS * t->bytes);
    fill(a, 1), fill(b, 2);
    for (unsigned o = 0; o < sizeof ORDERS / sizeof *ORDERS; o++)
      for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
          char ta = OPS[i], tb = OPS[j];
          for (unsigned s = 0; s < sizeof SIZES / sizeof *SIZES; s++)
            for (int u = 0; u < 2; u++) gemmt((s + j) & 1, ORDERS[o], u ? 'U' : 'L', ta, tb, SIZES[s][0], SIZES[s][1], (i + s + u) & 1);
          if (t->complex) gemm3m(ORDERS[o], ta, tb);
          for (int how = 0; how < 6; how++) {
#ifndef ILLEGAL
            if (how == 1) continue;
#endif
            batch(ORDERS[o], ta, tb, how);
          }
          for (int shared = 0; shared < 2; shared++)
            for (int count = 0; count < 8; count += 3 + shared) strided(ORDERS[o], ta, tb, shared, count);
        }
    static const int INCS[][2] = {{1, 1}, {2, 3}, {-1, 1}, {3, -2}, {-2, -1}};
    for (unsigned o = 0; o < sizeof ORDERS / sizeof *ORDERS; o++)
      for (int i = 0; i < 5; i++)
        for (int zero = 0; zero < 4; zero++) axpby(ORDERS[o], 1000 * i + 1, INCS[i][0], INCS[i][1], zero);
#ifdef MATRICES
    matrices(ORDERS, sizeof ORDERS / sizeof *ORDERS);
#endif
    for (int i = 0; i < 4; i++) free(*all[i]);
  }
  if (argc > 2 && (!semcache_test_builtin_calls || semcache_test_builtin_calls() < atol(argv[2]))) {
    printf("only %ld calls in the built-in BLAS\n", semcache_test_builtin_calls ? (long)semcache_test_builtin_calls() : 0);
    failures++;
  }
  printf("%d calls, %d failures\n", calls, failures);
  return failures != 0;
}
