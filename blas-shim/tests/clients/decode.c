/* Calls every offloadable routine in one family of spellings and compares with OpenBLAS (LP64, opened
 * privately): the data are small integers, so every result is exact. Built once per family:
 *   INT    integer type            F(x)  Fortran name       C(x)  CBLAS name, if CBLAS is defined
 * Every call must have been computed by the shim's built-in BLAS unless HOST says otherwise. */
#include <complex.h>
#undef I
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DOOR
/* The library has its runtime, whose devices refuse some kernels: who computed which call is not known. */
static uint64_t semcache_test_builtin_calls(void) { return 0; }
enum { COUNTED = 0 };
#else
extern uint64_t semcache_test_builtin_calls(void) __attribute__((weak));
enum { COUNTED = 1 };
#endif

/* An integer followed by other bits: reading 64 bits of a 32-bit integer gives another number. */
typedef union { INT v; int half[4]; } I;
static I mk(long v) { I i = {.half = {-1, -1, -1, -1}}; i.v = (INT)v; return i; }

static void *host;
static int failures, calls;
static uint64_t before;
static void *ref(const char *letter, const char *name, const char *end) {
  char buf[64];
  snprintf(buf, sizeof buf, "%s%s%s", letter, name, end);
  void *p = dlsym(host, buf);
  if (!p) { printf("no reference %s\n", buf); exit(3); }
  return p;
}
static void begin(void) { before = semcache_test_builtin_calls ? semcache_test_builtin_calls() : 0; }
/* Equal bits, except the sign of zeros: kernels differ in the sign, also OpenBLAS's kernels for different
   processors. */
static int same(const void *x, const void *y, size_t n) {
  const uint32_t *u = x, *v = y;
  for (size_t i = 0; i < n / sizeof *u; i++)
    if (u[i] != v[i] && ((u[i] | v[i]) & 0x7fffffffu)) return 0;
  return 1;
}
static void check(const char *what, const void *x, const void *y, size_t n, int expected) {
  calls++;
  if (!same(x, y, n)) { printf("WRONG %s\n", what); failures++; }
  uint64_t ran = semcache_test_builtin_calls() - before;
  if (COUNTED && ran != (uint64_t)expected) { printf("%s: ran %lu times, not %d\n", what, ran, expected); failures++; }
}

enum { M = 5, N = 4, K = 3, LD = 7, SZ = 7 * 7 };
#define S1(x) #x
#define S(x) S1(x)

#define FILL(T, v, seed) for (int i = 0; i < SZ; i++) v[i] = (T)((i * 7 + seed) % 11 - 5) + (T)(((i * 5 + seed) % 7 - 3) * CI(T));
#define CI(T) (sizeof(T) == 2 * sizeof(R_##T) ? I_##T : 0)
typedef float R_s_t; typedef double R_d_t; typedef float R_c_t; typedef double R_z_t;
typedef float s_t; typedef double d_t; typedef float complex c_t; typedef double complex z_t;
#define I_s_t 0
#define I_d_t 0
#define I_c_t _Complex_I
#define I_z_t _Complex_I

#define PAIR(T) static T T##a[SZ], T##b[SZ], T##c[SZ], T##d[SZ], T##e[SZ];
PAIR(s_t) PAIR(d_t) PAIR(c_t) PAIR(z_t)
#define RESET(T) FILL(T, T##a, 1) FILL(T, T##b, 2) FILL(T, T##c, 3) memcpy(T##d, T##c, sizeof T##c); memcpy(T##e, T##b, sizeof T##b)

/* Fortran: every argument a pointer */
#define FORTRAN(p, T)                                                                              \
  static void test_fortran_##p(void) {                                                                  \
    extern void F(p##gemm)(), F(p##gemv)(), F(p##axpy)(), F(p##scal)(), F(p##copy)(), F(p##swap)();\
    T al = 2, be = 3;                                                                              \
    const char *ops[] = {"n", "T", "c", "N"};                                                      \
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) {                                      \
      RESET(T);                                                                                    \
      int m = M, n = N, k = K, ld = LD; I mi = mk(m), ni = mk(n), ki = mk(k), li = mk(ld);         \
      begin(); F(p##gemm)(ops[i], ops[j], &mi, &ni, &ki, &al, T##a, &li, T##b, &li, &be, T##c, &li, 1L, 1L); \
      ((void (*)())ref(#p, "gemm", "_"))(ops[i], ops[j], &m, &n, &k, &al, T##a, &ld, T##b, &ld, &be, T##d, &ld, 1L, 1L); \
      check(S(F(p##gemm)), T##c, T##d, sizeof T##c, 1);                                            \
    }                                                                                              \
    for (int i = 0; i < 3; i++) for (int inc = -2; inc <= 2; inc++) {                              \
      if (!inc) continue;                                                                          \
      RESET(T);                                                                                    \
      int m = M, n = N, ld = LD, one = 1; I mi = mk(m), ni = mk(n), li = mk(ld), ii = mk(inc), oi = mk(1); \
      begin(); F(p##gemv)(ops[i], &mi, &ni, &al, T##a, &li, T##b, &ii, &be, T##c, &oi, 1L);        \
      ((void (*)())ref(#p, "gemv", "_"))(ops[i], &m, &n, &al, T##a, &ld, T##b, &inc, &be, T##d, &one, 1L); \
      check(S(F(p##gemv)), T##c, T##d, sizeof T##c, 1);                                            \
      RESET(T);                                                                                    \
      begin(); F(p##axpy)(&mi, &al, T##b, &ii, T##c, &oi);                                         \
      ((void (*)())ref(#p, "axpy", "_"))(&m, &al, T##b, &inc, T##d, &one);                         \
      check(S(F(p##axpy)), T##c, T##d, sizeof T##c, 1);                                            \
      RESET(T);                                                                                    \
      begin(); F(p##copy)(&mi, T##b, &ii, T##c, &oi);                                              \
      ((void (*)())ref(#p, "copy", "_"))(&m, T##b, &inc, T##d, &one);                              \
      check(S(F(p##copy)), T##c, T##d, sizeof T##c, 1);                                            \
      RESET(T);                                                                                    \
      begin(); F(p##swap)(&mi, T##b, &ii, T##c, &oi);                                              \
      ((void (*)())ref(#p, "swap", "_"))(&m, T##e, &inc, T##d, &one);                              \
      check(S(F(p##swap)), T##c, T##d, sizeof T##c, 1);                                            \
      check(S(F(p##swap)), T##b, T##e, sizeof T##c, 1);                                            \
    }                                                                                              \
    RESET(T); int m = M, two = 2; I mi = mk(m), ti = mk(two);                                      \
    begin(); F(p##scal)(&mi, &al, T##c, &ti);                                                      \
    ((void (*)())ref(#p, "scal", "_"))(&m, &al, T##d, &two);                                       \
    check(S(F(p##scal)), T##c, T##d, sizeof T##c, 1);                                              \
  }

#define FORTRAN_GER(p, name, T)                                                                    \
  static void test_fortran_##p##name(void) {                                                            \
    extern void F(p##name)(); T al = 2;                                                            \
    RESET(T); int m = M, n = N, ld = LD, one = 1, two = -2;                                        \
    I mi = mk(m), ni = mk(n), li = mk(ld), oi = mk(1), ti = mk(-2);                                \
    begin(); F(p##name)(&mi, &ni, &al, T##a, &ti, T##b, &oi, T##c, &li);                           \
    ((void (*)())ref(#p, #name, "_"))(&m, &n, &al, T##a, &two, T##b, &one, T##d, &ld);             \
    check(S(F(p##name)), T##c, T##d, sizeof T##c, 1);                                              \
  }

#define FORTRAN_DOT(name, T)                                                                       \
  static void test_fortran_##name(void) {                                                               \
    extern T F(name)(); RESET(T); int m = M, two = 2, neg = -1; I mi = mk(m), ti = mk(2), gi = mk(-1); \
    begin(); T x = F(name)(&mi, T##a, &ti, T##b, &gi);                                             \
    T y = ((T(*)())ref("", #name, "_"))(&m, T##a, &two, T##b, &neg);                               \
    check(S(F(name)), &x, &y, sizeof x, 1);                                                        \
  }
/* nrm2 of a vector with one element: no rounding */
#define FORTRAN_ONE(name, T, R, len)                                                               \
  static void test_fortran_##name(void) {                                                               \
    extern R F(name)(); RESET(T); int m = len, two = 2; I mi = mk(m), ti = mk(2);                  \
    begin(); R x = F(name)(&mi, T##a, &ti);                                                        \
    R y = ((R(*)())ref("", #name, "_"))(&m, T##a, &two);                                           \
    if (len == 1 && x - y < 1e-5 && y - x < 1e-5) y = x;                                           \
    check(S(F(name)), &x, &y, sizeof x, 1);                                                        \
  }
#define FORTRAN_MAX(name, T)                                                                       \
  static void test_fortran_##name(void) {                                                               \
    extern INT F(name)(); RESET(T); int m = M, two = 2; I mi = mk(m), ti = mk(2);                  \
    T##a[4] = 99; begin(); INT x = F(name)(&mi, T##a, &ti);                                        \
    INT y = ((int (*)())ref("", #name, "_"))(&m, T##a, &two);                                      \
    check(S(F(name)), &x, &y, sizeof x, 1); if (x != 3) failures++;                                \
  }
#define FORTRAN_RSCAL(name, T, R)                                                                  \
  static void test_fortran_##name(void) {                                                               \
    extern void F(name)(); RESET(T); R al = 3; int m = M, two = 2; I mi = mk(m), ti = mk(2);       \
    begin(); F(name)(&mi, &al, T##c, &ti); ((void (*)())ref("", #name, "_"))(&m, &al, T##d, &two); \
    check(S(F(name)), T##c, T##d, sizeof T##c, 1);                                                 \
  }
FORTRAN(s, s_t) FORTRAN(d, d_t) FORTRAN(c, c_t) FORTRAN(z, z_t)
FORTRAN_GER(s, ger, s_t) FORTRAN_GER(d, ger, d_t)
FORTRAN_GER(c, geru, c_t) FORTRAN_GER(z, geru, z_t) FORTRAN_GER(c, gerc, c_t) FORTRAN_GER(z, gerc, z_t)
FORTRAN_DOT(sdot, s_t) FORTRAN_DOT(ddot, d_t) FORTRAN_DOT(cdotu, c_t) FORTRAN_DOT(zdotu, z_t)
FORTRAN_DOT(cdotc, c_t) FORTRAN_DOT(zdotc, z_t)
FORTRAN_ONE(snrm2, s_t, float, 1) FORTRAN_ONE(dnrm2, d_t, double, 1)
FORTRAN_ONE(scnrm2, c_t, float, 1) FORTRAN_ONE(dznrm2, z_t, double, 1)
FORTRAN_ONE(sasum, s_t, float, 5) FORTRAN_ONE(dasum, d_t, double, 5)
FORTRAN_ONE(scasum, c_t, float, 5) FORTRAN_ONE(dzasum, z_t, double, 5)
FORTRAN_MAX(isamax, s_t) FORTRAN_MAX(idamax, d_t) FORTRAN_MAX(icamax, c_t) FORTRAN_MAX(izamax, z_t)
FORTRAN_RSCAL(csscal, c_t, float) FORTRAN_RSCAL(zdscal, z_t, double)

#ifdef CBLAS
/* CBLAS: real scalars by value, complex ones by reference; both orders */
#define BYVAL(x) x
#define BYREF(x) &x
#define CBLAS_TYPE(p, T, A, TA)                                                                    \
  static void test_cblas_##p(void) {                                                                    \
    T al = 2, be = 3;                                                                              \
    typedef void gemm_t(int, int, int, INT, INT, INT, TA, const void *, INT, const void *, INT, TA, void *, INT); \
    typedef void gemm_r(int, int, int, int, int, int, TA, const void *, int, const void *, int, TA, void *, int); \
    typedef void gemv_t(int, int, INT, INT, TA, const void *, INT, const void *, INT, TA, void *, INT); \
    typedef void gemv_r(int, int, int, int, TA, const void *, int, const void *, int, TA, void *, int); \
    extern gemm_t C(p##gemm); extern gemv_t C(p##gemv);                                            \
    extern void C(p##axpy)(INT, TA, const void *, INT, void *, INT);                               \
    extern void C(p##scal)(INT, TA, void *, INT);                                                  \
    extern void C(p##copy)(INT, const void *, INT, void *, INT), C(p##swap)(INT, void *, INT, void *, INT); \
    for (int o = 101; o <= 102; o++) for (int i = 111; i <= 113; i++) {                            \
      for (int j = 111; j <= 113; j++) {                                                           \
        RESET(T);                                                                                  \
        begin(); C(p##gemm)(o, i, j, M, N, K, A(al), T##a, LD, T##b, LD, A(be), T##c, LD);         \
        ((gemm_r *)ref("cblas_" #p, "gemm", ""))(o, i, j, M, N, K, A(al), T##a, LD, T##b, LD, A(be), T##d, LD); \
        check(S(C(p##gemm)), T##c, T##d, sizeof T##c, 1);                                          \
      }                                                                                            \
      RESET(T);                                                                                    \
      begin(); C(p##gemv)(o, i, M, N, A(al), T##a, LD, T##b, -2, A(be), T##c, 1);                  \
      int conj = o == 101 && i == 113 && sizeof(T) == 2 * sizeof(R_##T);                           \
      ((gemv_r *)ref("cblas_" #p, "gemv", ""))(o, i, M, N, A(al), T##a, LD, T##b, -2, A(be), T##d, 1); \
      check(S(C(p##gemv)), T##c, T##d, sizeof T##c, !conj);                                        \
    }                                                                                              \
    RESET(T); begin(); C(p##axpy)(M, A(al), T##b, 2, T##c, -1);                                    \
    ((void (*)(int, TA, void *, int, void *, int))ref("cblas_" #p, "axpy", ""))(M, A(al), T##b, 2, T##d, -1); \
    check(S(C(p##axpy)), T##c, T##d, sizeof T##c, 1);                                              \
    RESET(T); begin(); C(p##scal)(M, A(al), T##c, 2);                                              \
    ((void (*)(int, TA, void *, int))ref("cblas_" #p, "scal", ""))(M, A(al), T##d, 2);             \
    check(S(C(p##scal)), T##c, T##d, sizeof T##c, 1);                                              \
    RESET(T); begin(); C(p##copy)(M, T##b, 2, T##c, -1);                                           \
    ((void (*)(int, void *, int, void *, int))ref("cblas_" #p, "copy", ""))(M, T##b, 2, T##d, -1); \
    check(S(C(p##copy)), T##c, T##d, sizeof T##c, 1);                                              \
    RESET(T); begin(); C(p##swap)(M, T##b, 2, T##c, -1);                                           \
    ((void (*)(int, void *, int, void *, int))ref("cblas_" #p, "swap", ""))(M, T##e, 2, T##d, -1); \
    check(S(C(p##swap)), T##c, T##d, sizeof T##c, 1);                                              \
  }
#define CBLAS_GER(p, name, T, A, TA, conj)                                                         \
  static void test_cblas_##p##name(void) {                                                              \
    T al = 2; extern void C(p##name)(int, INT, INT, TA, const void *, INT, const void *, INT, void *, INT); \
    for (int o = 101; o <= 102; o++) {                                                             \
      RESET(T); begin(); C(p##name)(o, M, N, A(al), T##a, -2, T##b, 1, T##c, LD);                  \
      ((void (*)(int, int, int, TA, void *, int, void *, int, void *, int))ref("cblas_" #p, #name, ""))( \
          o, M, N, A(al), T##a, -2, T##b, 1, T##d, LD);                                            \
      check(S(C(p##name)), T##c, T##d, sizeof T##c, !(conj && o == 101));                          \
    }                                                                                              \
  }
#define CBLAS_DOT(name, T)                                                                         \
  static void test_cblas_##name(void) {                                                                 \
    extern T C(name)(INT, const void *, INT, const void *, INT); RESET(T);                         \
    begin(); T x = C(name)(M, T##a, 2, T##b, -1);                                                  \
    T y = ((T(*)(int, void *, int, void *, int))ref("cblas_", #name, ""))(M, T##a, 2, T##b, -1);   \
    check(S(C(name)), &x, &y, sizeof x, 1);                                                        \
  }
#define CBLAS_SUB(name, T)                                                                         \
  static void test_cblas_##name(void) {                                                                 \
    extern void C(name)(INT, const void *, INT, const void *, INT, void *); RESET(T); T x, y;      \
    begin(); C(name)(M, T##a, 2, T##b, -1, &x);                                                    \
    ((void (*)(int, void *, int, void *, int, void *))ref("cblas_", #name, ""))(M, T##a, 2, T##b, -1, &y); \
    check(S(C(name)), &x, &y, sizeof x, 1);                                                        \
  }
#define CBLAS_ONE(name, T, R, len)                                                                 \
  static void test_cblas_##name(void) {                                                                 \
    extern R C(name)(INT, const void *, INT); RESET(T);                                            \
    begin(); R x = C(name)(len, T##a, 2); R y = ((R(*)(int, void *, int))ref("cblas_", #name, ""))(len, T##a, 2); \
    if (len == 1 && x - y < 1e-5 && y - x < 1e-5) y = x;                                           \
    check(S(C(name)), &x, &y, sizeof x, 1);                                                        \
  }
#define CBLAS_MAX(name, T)                                                                         \
  static void test_cblas_##name(void) {                                                                 \
    extern size_t C(name)(INT, const void *, INT); RESET(T); T##a[4] = 99;                         \
    begin(); size_t x = C(name)(M, T##a, 2), y = ((size_t(*)(int, void *, int))ref("cblas_", #name, ""))(M, T##a, 2); \
    check(S(C(name)), &x, &y, sizeof x, 1); if (x != 2) failures++;                                \
    begin(); x = C(name)(0, T##a, 2); y = 0; check(S(C(name)), &x, &y, sizeof x, 1);               \
  }
#define CBLAS_RSCAL(name, T, R)                                                                    \
  static void test_cblas_##name(void) {                                                                 \
    extern void C(name)(INT, R, void *, INT); RESET(T);                                            \
    begin(); C(name)(M, 3, T##c, 2); ((void (*)(int, R, void *, int))ref("cblas_", #name, ""))(M, 3, T##d, 2); \
    check(S(C(name)), T##c, T##d, sizeof T##c, 1);                                                 \
  }
CBLAS_TYPE(s, s_t, BYVAL, float) CBLAS_TYPE(d, d_t, BYVAL, double)
CBLAS_TYPE(c, c_t, BYREF, const void *) CBLAS_TYPE(z, z_t, BYREF, const void *)
CBLAS_GER(s, ger, s_t, BYVAL, float, 0) CBLAS_GER(d, ger, d_t, BYVAL, double, 0)
CBLAS_GER(c, geru, c_t, BYREF, const void *, 0) CBLAS_GER(z, geru, z_t, BYREF, const void *, 0)
CBLAS_GER(c, gerc, c_t, BYREF, const void *, 1) CBLAS_GER(z, gerc, z_t, BYREF, const void *, 1)
CBLAS_DOT(sdot, s_t) CBLAS_DOT(ddot, d_t)
CBLAS_SUB(cdotu_sub, c_t) CBLAS_SUB(zdotu_sub, z_t) CBLAS_SUB(cdotc_sub, c_t) CBLAS_SUB(zdotc_sub, z_t)
CBLAS_ONE(snrm2, s_t, float, 1) CBLAS_ONE(dnrm2, d_t, double, 1)
CBLAS_ONE(scnrm2, c_t, float, 1) CBLAS_ONE(dznrm2, z_t, double, 1)
CBLAS_ONE(sasum, s_t, float, 5) CBLAS_ONE(dasum, d_t, double, 5)
CBLAS_ONE(scasum, c_t, float, 5) CBLAS_ONE(dzasum, z_t, double, 5)
CBLAS_MAX(isamax, s_t) CBLAS_MAX(idamax, d_t) CBLAS_MAX(icamax, c_t) CBLAS_MAX(izamax, z_t)
CBLAS_RSCAL(csscal, c_t, float) CBLAS_RSCAL(zdscal, z_t, double)
#endif

int main(int argc, char **argv) {
  if (argc != 2 || !(host = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) || !semcache_test_builtin_calls) return 2;
  test_fortran_s(); test_fortran_d(); test_fortran_c(); test_fortran_z();
  test_fortran_sger(); test_fortran_dger(); test_fortran_cgeru(); test_fortran_zgeru(); test_fortran_cgerc(); test_fortran_zgerc();
  test_fortran_sdot(); test_fortran_ddot(); test_fortran_cdotu(); test_fortran_zdotu(); test_fortran_cdotc(); test_fortran_zdotc();
  test_fortran_snrm2(); test_fortran_dnrm2(); test_fortran_scnrm2(); test_fortran_dznrm2();
  test_fortran_sasum(); test_fortran_dasum(); test_fortran_scasum(); test_fortran_dzasum();
  test_fortran_isamax(); test_fortran_idamax(); test_fortran_icamax(); test_fortran_izamax();
  test_fortran_csscal(); test_fortran_zdscal();
#ifdef CBLAS
  test_cblas_s(); test_cblas_d(); test_cblas_c(); test_cblas_z();
  test_cblas_sger(); test_cblas_dger(); test_cblas_cgeru(); test_cblas_zgeru(); test_cblas_cgerc(); test_cblas_zgerc();
  test_cblas_sdot(); test_cblas_ddot(); test_cblas_cdotu_sub(); test_cblas_zdotu_sub(); test_cblas_cdotc_sub(); test_cblas_zdotc_sub();
  test_cblas_snrm2(); test_cblas_dnrm2(); test_cblas_scnrm2(); test_cblas_dznrm2();
  test_cblas_sasum(); test_cblas_dasum(); test_cblas_scasum(); test_cblas_dzasum();
  test_cblas_isamax(); test_cblas_idamax(); test_cblas_icamax(); test_cblas_izamax();
  test_cblas_csscal(); test_cblas_zdscal();
#endif
  printf("%d calls, %d failures\n", calls, failures);
  return failures != 0;
}
