/* Every call of symv, hemv, trmv, trsv, syr, her, syr2, her2, rot and rotm in one family of spellings, with all
 * flags, both orders of storage, increments of both signs and the four types, compared with OpenBLAS (LP64, opened
 * privately). The data are such that every result is exact, and the triangles that a call must not access hold other
 * numbers. Built once per family:
 *   INT    integer type            F(x)  Fortran name       C(x)  CBLAS name, if CBLAS is defined
 * The shim's built-in BLAS must have computed every call, except row-major calls that would have to conjugate vectors,
 * and csyr2 and zsyr2 with negative increments; with ILLEGAL it must not have computed the illegal calls. */
#include "flags.h"

static void *at(void *x, int i) { return (char *)x + i * (1 + t->complex) * (t->wide ? 8 : 4); }

#define R4(r) extern fn F(s##r), F(d##r), F(c##r), F(z##r);
#define R2(r) extern fn F(s##r), F(d##r);
#define H2(r) extern fn F(c##r), F(z##r);
R2(symv) H2(hemv) R4(trmv) R4(trsv) R2(syr) H2(her) R2(syr2) H2(her2)
/* Only OpenBLAS has these, with an underscore. */
extern fn F(csyr2) __attribute__((weak)), F(zsyr2) __attribute__((weak));
extern fn F(srot), F(drot), F(csrot), F(zdrot), F(srotm), F(drotm);
#define A4(r) {F(s##r), F(d##r), F(c##r), F(z##r)}
#define A2(r) {F(s##r), F(d##r), 0, 0}
#define B2(r) {0, 0, F(c##r), F(z##r)}
enum { SYMV, HEMV, TRMV, TRSV, SYR, HER, SYR2, HER2, ROUTINES };
static const char *const NAMES[] = {"symv", "hemv", "trmv", "trsv", "syr", "her", "syr2", "her2"};

static const int SIZES[] = {5, 3, 1, 0};
static const int INCS[][2] = {{1, 1}, {2, -1}, {-3, 2}};

static void fortran_call(int r, fn *f, int wide, const char *flags, int n_, const int *inc) {
  I n = mk(n_), l = mk(LD), ix = mk(inc[0]), iy = mk(inc[1]);
  int ni = n_, li = LD, ixi = inc[0], iyi = inc[1];
  void *pn = wide ? (void *)&n : &ni, *pl = wide ? (void *)&l : &li;
  void *px = wide ? (void *)&ix : &ixi, *py = wide ? (void *)&iy : &iyi;
  void *c = wide ? mem_c : mem_d;
  const char *f0 = flags, *f1 = flags + 1, *f2 = flags + 2;
  switch (r) {
    case SYMV: case HEMV: f(f0, pn, mem_al, mem_a, pl, mem_b, px, mem_be, c, py, 1L); break;
    case SYR: case HER: f(f0, pn, mem_al, mem_b, px, c, pl, 1L); break;
    case SYR2: case HER2: f(f0, pn, mem_al, mem_b, px, mem_a, py, c, pl, 1L); break;
    default: f(f0, f1, f2, pn, mem_a, pl, c, px, 1L, 1L, 1L);
  }
}
static void fortran_one(int r, fn *f, const char *flags, int n, const int *inc, int expected) {
  fn *other = ref("", t->letter, NAMES[r], "_");
  snprintf(what, sizeof what, "%c%s %s %d %d %d", t->letter, NAMES[r], flags, n, inc[0], inc[1]);
  reset(r == TRSV);
  fortran_call(r, f, 1, flags, n, inc);
  fortran_call(r, other, 0, flags, n, inc);
  check(expected);
}

#ifdef CBLAS
#define RC4(r) extern fn C(s##r), C(d##r), C(c##r), C(z##r);
#define RC2(r) extern fn C(s##r), C(d##r);
#define HC2(r) extern fn C(c##r), C(z##r);
RC2(symv) HC2(hemv) RC4(trmv) RC4(trsv) RC2(syr) HC2(her) RC2(syr2) HC2(her2)
extern fn C(srot), C(drot), C(csrot), C(zdrot), C(srotm), C(drotm);
#define AC4(r) {C(s##r), C(d##r), C(c##r), C(z##r)}
#define AC2(r) {C(s##r), C(d##r), 0, 0}
#define BC2(r) {0, 0, C(c##r), C(z##r)}

/* Real scalars by value, complex ones by reference. */
#define FLOAT(x) *(float *)x
#define DOUBLE(x) *(double *)x
#define POINTER(x) (void *)x
#define CALLS(x, J, T, A, R, RA)                                                                                   \
  static void x(int r, fn *f, void *c, int o, const int *g, J n, J ix, J iy) {                                     \
    J l = LD;                                                                                                      \
    switch (r) {                                                                                                   \
      case SYMV: case HEMV:                                                                                        \
        ((void (*)(int, int, J, T, void *, J, void *, J, T, void *, J))f)(                                         \
            o, g[0], n, A(mem_al), mem_a, l, mem_b, ix, A(mem_be), c, iy); break;                                  \
      case SYR:                                                                                                    \
        ((void (*)(int, int, J, T, void *, J, void *, J))f)(o, g[0], n, A(mem_al), mem_b, ix, c, l); break;        \
      case HER:                                                                                                    \
        ((void (*)(int, int, J, R, void *, J, void *, J))f)(o, g[0], n, RA(mem_al), mem_b, ix, c, l); break;       \
      case SYR2: case HER2:                                                                                        \
        ((void (*)(int, int, J, T, void *, J, void *, J, void *, J))f)(                                            \
            o, g[0], n, A(mem_al), mem_b, ix, mem_a, iy, c, l); break;                                             \
      default:                                                                                                     \
        ((void (*)(int, int, int, int, J, void *, J, void *, J))f)(o, g[0], g[1], g[2], n, mem_a, l, c, ix);       \
    }                                                                                                              \
  }                                                                                                                \
  static void x##_rot(fn *f, void *c, J n, J ix, J iy) {                                                           \
    ((void (*)(J, void *, J, void *, J, R, R))f)(n, c, ix, at(c, 24), iy, RA(mem_al), RA(mem_be));                 \
  }                                                                                                                \
  static void x##_rotm(fn *f, void *c, J n, J ix, J iy, void *p) {                                                 \
    ((void (*)(J, void *, J, void *, J, void *))f)(n, c, ix, at(c, 24), iy, p);                                    \
  }
CALLS(call_s, INT, float, FLOAT, float, FLOAT) CALLS(call_d, INT, double, DOUBLE, double, DOUBLE)
CALLS(call_c, INT, void *, POINTER, float, FLOAT) CALLS(call_z, INT, void *, POINTER, double, DOUBLE)
CALLS(ref_s, int, float, FLOAT, float, FLOAT) CALLS(ref_d, int, double, DOUBLE, double, DOUBLE)
CALLS(ref_c, int, void *, POINTER, float, FLOAT) CALLS(ref_z, int, void *, POINTER, double, DOUBLE)
typedef void call_t(int, fn *, void *, int, const int *, INT, INT, INT);
typedef void ref_t(int, fn *, void *, int, const int *, int, int, int);
static call_t *const CALL[] = {call_s, call_d, call_c, call_z};
static ref_t *const REF[] = {ref_s, ref_d, ref_c, ref_z};
typedef void call_rot_t(fn *, void *, INT, INT, INT);
typedef void ref_rot_t(fn *, void *, int, int, int);
static call_rot_t *const CALL_ROT[] = {call_s_rot, call_d_rot, call_c_rot, call_z_rot};
static ref_rot_t *const REF_ROT[] = {ref_s_rot, ref_d_rot, ref_c_rot, ref_z_rot};

static void cblas_one(int r, int type, int order, const int *g, int n, const int *inc, int expected) {
  static fn *const CS[ROUTINES][4] = {AC2(symv), BC2(hemv), AC4(trmv), AC4(trsv), AC2(syr), BC2(her), AC2(syr2), BC2(her2)};
  if (!CS[r][type]) return;
  fn *other = ref("cblas_", t->letter, NAMES[r], "");
  snprintf(what, sizeof what, "cblas_%c%s %d %d %d %d %d %d %d", t->letter, NAMES[r], order, g[0], g[1], g[2], n, inc[0], inc[1]);
  reset(r == TRSV);
  CALL[type](r, CS[r][type], mem_c, order, g, n, inc[0], inc[1]);
  REF[type](r, other, mem_d, order, g, n, inc[0], inc[1]);
  check(expected);
}
static void cblas(int r, int type, const int *g, int n, const int *inc) {
  int conjugates = r == HEMV || r == HER || r == HER2 || (t->complex && g[1] == 113);
  cblas_one(r, type, 101, g, n, inc, !conjugates);
  cblas_one(r, type, 102, g, n, inc, 1);
}
#else
static void cblas(int r, int type, const int *g, int n, const int *inc) {}
#endif

/* The lower-case and the upper-case letter in turn, so that both are passed. */
static char either(char c) { static int n; return n++ & 1 ? c : c | 32; }

static void all(int r, int type, fn *f, int n, const int *inc) {
  char flags[4] = ""; int g[3] = {0};
  for (int i = 0; i < 2; i++) for (int j = 0; j < 3; j++) for (int k = 0; k < 2; k++) {
    int triangular = r == TRMV || r == TRSV;
    if (!triangular && (j || k)) continue;
    flags[0] = either("UL"[i]); g[0] = 121 + i;
    if (triangular) {
      flags[1] = either("NTC"[j]); flags[2] = either("NU"[k]);
      g[1] = 111 + j; g[2] = 131 + k;
    }
    /* OpenBLAS's csyr2 and zsyr2 find the elements of vectors with negative increments at other addresses. */
    fortran_one(r, f, flags, n, inc, !(r == SYR2 && t->complex && (inc[0] < 0 || inc[1] < 0)));
    cblas(r, type, g, n, inc);
  }
}

/* x and y in one block. */
static void rotations(int type, int n_, const int *inc) {
  static fn *const ROT[] = {F(srot), F(drot), F(csrot), F(zdrot)}, *const ROTM[] = {F(srotm), F(drotm)};
  static const char *const NAME[] = {"srot", "drot", "csrot", "zdrot"}, *const NAMEM[] = {"srotm", "drotm"};
  I n = mk(n_), ix = mk(inc[0]), iy = mk(inc[1]);
  int ni = n_, ixi = inc[0], iyi = inc[1];
  snprintf(what, sizeof what, "%s %d %d %d", NAME[type], n_, inc[0], inc[1]);
  reset(0);
  ROT[type](&n, mem_c, &ix, at(mem_c, 24), &iy, mem_al, mem_be);
  ref("", NAME[type][0], NAME[type] + 1, "_")(&ni, mem_d, &ixi, at(mem_d, 24), &iyi, mem_al, mem_be);
  check(1);
#ifdef CBLAS
  static fn *const CROT[] = {C(srot), C(drot), C(csrot), C(zdrot)}, *const CROTM[] = {C(srotm), C(drotm)};
  snprintf(what, sizeof what, "cblas_%s %d %d %d", NAME[type], n_, inc[0], inc[1]);
  reset(0);
  CALL_ROT[type](CROT[type], mem_c, n_, inc[0], inc[1]);
  REF_ROT[type](ref("cblas_", NAME[type][0], NAME[type] + 1, ""), mem_d, n_, inc[0], inc[1]);
  check(1);
#endif
  for (int flag = -3; flag <= 1 && !t->complex; flag++) {
    double p[5];
    /* -3 stands for a positive number that is no flag: the call runs on the host BLAS. Entries that the flag does
       not use hold other numbers. */
    put(p, 0, flag == -3 ? 7 : flag, 0);
    for (int i = 1; i < 5; i++) put(p, i, flag == -2 || (flag == 0 && i % 3 == 1) || (flag == 1 && i % 3 != 1) ? 1e9 : i + 1, 0);
    int ran = flag == -3 ? 0 : 1;
    snprintf(what, sizeof what, "%s %d %d %d %d", NAMEM[type], flag, n_, inc[0], inc[1]);
    reset(0);
    ROTM[type](&n, mem_c, &ix, at(mem_c, 24), &iy, p);
    ref("", NAMEM[type][0], NAMEM[type] + 1, "_")(&ni, mem_d, &ixi, at(mem_d, 24), &iyi, p);
    check(ran);
#ifdef CBLAS
    snprintf(what, sizeof what, "cblas_%s %d %d %d %d", NAMEM[type], flag, n_, inc[0], inc[1]);
    reset(0);
    if (type) call_d_rotm(CROTM[type], mem_c, n_, inc[0], inc[1], p);
    else call_s_rotm(CROTM[type], mem_c, n_, inc[0], inc[1], p);
    fn *other = ref("cblas_", NAMEM[type][0], NAMEM[type] + 1, "");
    if (type) ref_d_rotm(other, mem_d, n_, inc[0], inc[1], p);
    else ref_s_rotm(other, mem_d, n_, inc[0], inc[1], p);
    check(ran);
#endif
  }
}

static void illegal(void) {
#ifdef ILLEGAL
  int inc[2] = {1, 1};
  t = &TYPES[3];
  fortran_one(HEMV, F(zhemv), "X", 3, inc, 0);
  fortran_one(HER, F(zher), "X", 3, inc, 0);
  fortran_one(HER2, F(zher2), " ", 3, inc, 0);
  fortran_one(TRMV, F(ztrmv), "UXN", 3, inc, 0);
  fortran_one(TRSV, F(ztrsv), "UNX", 3, inc, 0);
  cblas_one(HEMV, 3, 102, (int[]){1, 0, 0}, 3, inc, 0);
  cblas_one(TRMV, 3, 103, (int[]){121, 111, 131}, 3, inc, 0);
  cblas_one(TRSV, 3, 101, (int[]){121, 111, 130}, 3, inc, 0);
#endif
}

int main(int argc, char **argv) {
  if (argc != 2 || !(host = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) || !semcache_test_builtin_calls) return 2;
  fn *const fortran[ROUTINES][4] = {A2(symv), B2(hemv), A4(trmv), A4(trsv), A2(syr), B2(her), A4(syr2), B2(her2)};
  for (int type = 0; type < 4; type++) {
    t = &TYPES[type];
    for (int s = 0; s < 4; s++) for (int i = 0; i < 3; i++) {
      for (int r = 0; r < ROUTINES; r++)
        if (fortran[r][type]) all(r, type, fortran[r][type], SIZES[s], INCS[i]);
      rotations(type, SIZES[s], INCS[i]);
    }
  }
  illegal();
  printf("%d calls, %d failures\n", calls, failures);
  return failures != 0;
}
