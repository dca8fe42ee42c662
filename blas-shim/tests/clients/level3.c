/* Every call of symm, hemm, syrk, herk, syr2k, her2k, trmm and trsm in one family of spellings, with all flags, both
 * orders of storage and the four types, compared with OpenBLAS (LP64, opened privately). The data are such that
 * every result is exact, and the triangles that a call must not access hold other numbers. Built once per family:
 *   INT    integer type            F(x)  Fortran name       C(x)  CBLAS name, if CBLAS is defined
 * The shim's built-in BLAS must have computed every call; with ILLEGAL it must not have computed the illegal calls. */
#include "flags.h"

#define R4(r) extern fn F(s##r), F(d##r), F(c##r), F(z##r);
#define R2(r) extern fn F(c##r), F(z##r);
R4(symm) R4(syrk) R4(syr2k) R4(trmm) R4(trsm) R2(hemm) R2(herk) R2(her2k)
#define A4(r) {F(s##r), F(d##r), F(c##r), F(z##r)}
#define A2(r) {0, 0, F(c##r), F(z##r)}
enum { SYMM, HEMM, SYRK, HERK, SYR2K, HER2K, TRMM, TRSM, ROUTINES };
static const char *const NAMES[] = {"symm", "hemm", "syrk", "herk", "syr2k", "her2k", "trmm", "trsm"};
static fn *const FORTRAN[ROUTINES][4] = {A4(symm), A2(hemm), A4(syrk), A2(herk), A4(syr2k), A2(her2k), A4(trmm), A4(trsm)};

static const int SIZES[][2] = {{5, 4}, {3, 6}, {1, 3}, {2, 0}, {0, 2}};
enum { NSIZES = sizeof SIZES / sizeof *SIZES };

static void fortran_call(int r, fn *f, int wide, const char *flags, int m_, int n_) {
  I m = mk(m_), n = mk(n_), l = mk(LD); int mi = m_, ni = n_, li = LD;
  void *pm = wide ? (void *)&m : &mi, *pn = wide ? (void *)&n : &ni, *pl = wide ? (void *)&l : &li;
  void *c = wide ? mem_c : mem_d;
  const char *f0 = flags, *f1 = flags + 1, *f2 = flags + 2, *f3 = flags + 3;
  switch (r) {
    case SYMM: case HEMM: f(f0, f1, pm, pn, mem_al, mem_a, pl, mem_b, pl, mem_be, c, pl, 1L, 1L); break;
    case SYRK: case HERK: f(f0, f1, pm, pn, mem_al, mem_a, pl, mem_be, c, pl, 1L, 1L); break;
    case SYR2K: case HER2K: f(f0, f1, pm, pn, mem_al, mem_a, pl, mem_b, pl, mem_be, c, pl, 1L, 1L); break;
    default: f(f0, f1, f2, f3, pm, pn, mem_al, mem_a, pl, c, pl, 1L, 1L, 1L, 1L);
  }
}
static void fortran_one(int r, int type, const char *flags, int m, int n, int expected) {
  fn *other = ref("", t->letter, NAMES[r], "_");
  snprintf(what, sizeof what, "%c%s %s %d %d", t->letter, NAMES[r], flags, m, n);
  reset(r == TRSM);
  fortran_call(r, FORTRAN[r][type], 1, flags, m, n);
  fortran_call(r, other, 0, flags, m, n);
  check(expected);
}

#ifdef CBLAS
#define RC4(r) extern fn C(s##r), C(d##r), C(c##r), C(z##r);
#define RC2(r) extern fn C(c##r), C(z##r);
RC4(symm) RC4(syrk) RC4(syr2k) RC4(trmm) RC4(trsm) RC2(hemm) RC2(herk) RC2(her2k)
#define AC4(r) {C(s##r), C(d##r), C(c##r), C(z##r)}
#define AC2(r) {0, 0, C(c##r), C(z##r)}
static fn *const CS[ROUTINES][4] = {AC4(symm), AC2(hemm), AC4(syrk), AC2(herk), AC4(syr2k), AC2(her2k), AC4(trmm), AC4(trsm)};

/* Real scalars by value, complex ones by reference. */
#define FLOAT(x) *(float *)x
#define DOUBLE(x) *(double *)x
#define POINTER(x) (void *)x
#define CALLS(x, J, T, A, R, RA)                                                                                   \
  static void x(int r, fn *f, void *c, int o, const int *g, J m, J n) {                                            \
    J l = LD;                                                                                                      \
    switch (r) {                                                                                                   \
      case SYMM: case HEMM:                                                                                        \
        ((void (*)(int, int, int, J, J, T, void *, J, void *, J, T, void *, J))f)(                                 \
            o, g[0], g[1], m, n, A(mem_al), mem_a, l, mem_b, l, A(mem_be), c, l); break;                           \
      case SYRK:                                                                                                   \
        ((void (*)(int, int, int, J, J, T, void *, J, T, void *, J))f)(                                            \
            o, g[0], g[1], m, n, A(mem_al), mem_a, l, A(mem_be), c, l); break;                                     \
      case HERK:                                                                                                   \
        ((void (*)(int, int, int, J, J, R, void *, J, R, void *, J))f)(                                            \
            o, g[0], g[1], m, n, RA(mem_al), mem_a, l, RA(mem_be), c, l); break;                                   \
      case SYR2K:                                                                                                  \
        ((void (*)(int, int, int, J, J, T, void *, J, void *, J, T, void *, J))f)(                                 \
            o, g[0], g[1], m, n, A(mem_al), mem_a, l, mem_b, l, A(mem_be), c, l); break;                           \
      case HER2K:                                                                                                  \
        ((void (*)(int, int, int, J, J, T, void *, J, void *, J, R, void *, J))f)(                                 \
            o, g[0], g[1], m, n, A(mem_al), mem_a, l, mem_b, l, RA(mem_be), c, l); break;                          \
      default:                                                                                                     \
        ((void (*)(int, int, int, int, int, J, J, T, void *, J, void *, J))f)(                                     \
            o, g[0], g[1], g[2], g[3], m, n, A(mem_al), mem_a, l, c, l);                                           \
    }                                                                                                              \
  }
CALLS(call_s, INT, float, FLOAT, float, FLOAT) CALLS(call_d, INT, double, DOUBLE, double, DOUBLE)
CALLS(call_c, INT, void *, POINTER, float, FLOAT) CALLS(call_z, INT, void *, POINTER, double, DOUBLE)
CALLS(ref_s, int, float, FLOAT, float, FLOAT) CALLS(ref_d, int, double, DOUBLE, double, DOUBLE)
CALLS(ref_c, int, void *, POINTER, float, FLOAT) CALLS(ref_z, int, void *, POINTER, double, DOUBLE)
typedef void call_t(int, fn *, void *, int, const int *, INT, INT);
typedef void ref_t(int, fn *, void *, int, const int *, int, int);
static call_t *const CALL[] = {call_s, call_d, call_c, call_z};
static ref_t *const REF[] = {ref_s, ref_d, ref_c, ref_z};

static void cblas_one(int r, int type, int order, const int *g, int m, int n, int expected) {
  fn *other = ref("cblas_", t->letter, NAMES[r], "");
  snprintf(what, sizeof what, "cblas_%c%s %d %d %d %d %d %d %d", t->letter, NAMES[r], order, g[0], g[1], g[2], g[3], m, n);
  reset(r == TRSM);
  CALL[type](r, CS[r][type], mem_c, order, g, m, n);
  REF[type](r, other, mem_d, order, g, m, n);
  check(expected);
}
static void cblas(int r, int type, const int *g, int m, int n) {
  cblas_one(r, type, 101, g, m, n, 1);
  cblas_one(r, type, 102, g, m, n, 1);
}
#else
static void cblas(int r, int type, const int *g, int m, int n) {}
#endif

/* The lower-case and the upper-case letter in turn, so that both are passed. */
static char either(char c) { static int n; return n++ & 1 ? c : c | 32; }

static void all(int r, int type, int m, int n) {
  char flags[5] = ""; int g[4] = {0};
  for (int i = 0; i < 2; i++) for (int j = 0; j < 3; j++) {
    if (r == SYMM || r == HEMM) {
      if (j == 2) continue;
      flags[0] = either("LR"[i]); flags[1] = either("UL"[j]);
      g[0] = 141 + i; g[1] = 121 + j;
    } else if (r < TRMM) {
      if (r == SYRK || r == SYR2K ? j == 2 && t->complex : j == 1) continue;
      flags[0] = either("UL"[i]); flags[1] = either("NTC"[j]);
      g[0] = 121 + i; g[1] = 111 + j;
    } else {
      for (int k = 0; k < 4; k++) {
        flags[0] = either("LR"[i]); flags[1] = either("UL"[k & 1]); flags[2] = either("NTC"[j]); flags[3] = either("NU"[k >> 1]);
        g[0] = 141 + i; g[1] = 121 + (k & 1); g[2] = 111 + j; g[3] = 131 + (k >> 1);
        fortran_one(r, type, flags, m, n, 1);
        cblas(r, type, g, m, n);
      }
      continue;
    }
    fortran_one(r, type, flags, m, n, 1);
    cblas(r, type, g, m, n);
  }
}

static void illegal(void) {
#ifdef ILLEGAL
  t = &TYPES[3];
  fortran_one(SYMM, 3, "XU", 3, 3, 0);
  fortran_one(HEMM, 3, "LX", 3, 3, 0);
  fortran_one(SYRK, 3, "UC", 3, 3, 0);
  fortran_one(SYR2K, 3, "UC", 3, 3, 0);
  fortran_one(HERK, 3, "UT", 3, 3, 0);
  fortran_one(HER2K, 3, "UT", 3, 3, 0);
  fortran_one(TRMM, 3, "LUXN", 3, 3, 0);
  fortran_one(TRSM, 3, "LUNX", 3, 3, 0);
  cblas_one(SYMM, 3, 102, (int[]){1, 121, 0, 0}, 3, 3, 0);
  cblas_one(HEMM, 3, 103, (int[]){141, 121, 0, 0}, 3, 3, 0);
  cblas_one(TRMM, 3, 101, (int[]){141, 120, 111, 131}, 3, 3, 0);
  cblas_one(TRSM, 3, 101, (int[]){141, 121, 111, 130}, 3, 3, 0);
#endif
}

int main(int argc, char **argv) {
  if (argc != 2 || !(host = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) || !semcache_test_builtin_calls) return 2;
  for (int type = 0; type < 4; type++) {
    t = &TYPES[type];
    for (int r = 0; r < ROUTINES; r++)
      if (FORTRAN[r][type])
        for (int s = 0; s < NSIZES; s++) all(r, type, SIZES[s][0], SIZES[s][1]);
  }
  illegal();
  printf("%d calls, %d failures\n", calls, failures);
  return failures != 0;
}
