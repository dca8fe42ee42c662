/* The tests of solvers.c for one element type: T, of letter P (s d c z), whose real numbers are R; COMPLEX is 1 or 0. */

#define CALL(name) JOIN(P, name)
#define GETRF CALL(getrf_)
#define GETRS CALL(getrs_)
#define GESV CALL(gesv_)
#define POTRF CALL(potrf_)
#define POTRS CALL(potrs_)
#define POSV CALL(posv_)
#define TRSM CALL(trsm_)
#define GEMM CALL(gemm_)
#define GETRI CALL(getri_)
#define POTRI CALL(potri_)
#define TRTRS CALL(trtrs_)
#define GEQRF CALL(geqrf_)
#define GECON CALL(gecon_)
#define POCON CALL(pocon_)
#if COMPLEX
#define FORMQ CALL(ungqr_)
#define APPLYQ CALL(unmqr_)
#define TURNED "C"
#else
#define FORMQ CALL(orgqr_)
#define APPLYQ CALL(ormqr_)
#define TURNED "T"
#endif

extern void GETRF(const INT *, const INT *, T *, const INT *, INT *, INT *);
extern void GETRS(const char *, const INT *, const INT *, const T *, const INT *, const INT *, T *, const INT *, INT *);
extern void GESV(const INT *, const INT *, T *, const INT *, INT *, T *, const INT *, INT *);
extern void POTRF(const char *, const INT *, T *, const INT *, INT *);
extern void POTRS(const char *, const INT *, const INT *, const T *, const INT *, T *, const INT *, INT *);
extern void POSV(const char *, const INT *, const INT *, T *, const INT *, T *, const INT *, INT *);
#ifndef WIDE
extern void GETRI(const INT *, T *, const INT *, const INT *, T *, const INT *, INT *);
extern void POTRI(const char *, const INT *, T *, const INT *, INT *);
extern void TRTRS(const char *, const char *, const char *, const INT *, const INT *, const T *, const INT *, T *, const INT *, INT *);
extern void GECON(const char *, const INT *, const T *, const INT *, const R *, R *, T *, void *, INT *);
extern void POCON(const char *, const INT *, const T *, const INT *, const R *, R *, T *, void *, INT *);
extern void GEQRF(const INT *, const INT *, T *, const INT *, T *, T *, const INT *, INT *);
extern void FORMQ(const INT *, const INT *, const INT *, T *, const INT *, const T *, T *, const INT *, INT *);
extern void APPLYQ(const char *, const char *, const INT *, const INT *, const INT *, const T *, const INT *, const T *, T *, const INT *,
                   T *, const INT *, INT *);
extern void GEMM(const char *, const char *, const INT *, const INT *, const INT *, const T *, const T *, const INT *, const T *,
                 const INT *, const T *, T *, const INT *);
#endif

#if COMPLEX
#define NUMBER(re, im) ((T)((re) + (im)*I))
#define CONJ(x) (JOIN2(conj, SUFFIX)(x))
#else
#define NUMBER(re, im) ((T)(re))
#define CONJ(x) (x)
#endif

/* The elements of a matrix, without the sign of zeros. */
static uint64_t CALL(_hash)(const T *a, INT rows, INT cols, INT ld)
{
    uint64_t hash = 14695981039346656037u;
    for (INT j = 0; j < cols; j++)
        for (INT i = 0; i < rows; i++) {
            T x = a[i + (size_t)ld * (size_t)j];
            R parts[2] = {(R)(creal(x) + 0.0), (R)(cimag(x) + 0.0)};
            for (int part = 0; part <= COMPLEX; part++)
                for (size_t byte = 0; byte < sizeof(R); byte++)
                    hash = (hash ^ ((unsigned char *)&parts[part])[byte]) * 1099511628211u;
        }
    return hash;
}

/* Some of the elements are not zero. */
static T CALL(_some)(INT i, INT j, int most)
{
    unsigned h = (unsigned)(i * 131 + j * 61) * 2654435761u >> 16;
    if (h % 64)
        return 0;
    return NUMBER((int)(h / 64 % (unsigned)(2 * most + 1)) - most, (int)(h / 512 % (unsigned)(2 * most + 1)) - most);
}

/* A = P L U, m by n, whose factors have few digits: L is a unit lower triangle of quarters, U has the diagonal 8. Each step of partial
 * pivoting finds one largest element. */
static void CALL(_general)(T *a, INT m, INT n, INT ld)
{
    INT least = m < n ? m : n;
    T *l = calloc((size_t)m * (size_t)least, sizeof *l), *u = calloc((size_t)least * (size_t)n, sizeof *u);
    for (INT j = 0; j < least; j++)
        for (INT i = j; i < m; i++)
            l[i + m * j] = i == j ? 1 : CALL(_some)(i, j, 1) / 4;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < least && i <= j; i++)
            u[i + least * j] = i == j ? 8 : CALL(_some)(j, i, 2);
    for (INT j = 0; j < n; j++) {
        T *column = a + (size_t)ld * (size_t)j;
        for (INT i = 0; i < m; i++)
            column[i] = 0;
        for (INT k = 0; k < least && k <= j; k++)
            if (u[k + least * j] != 0)
                for (INT i = k; i < m; i++)
                    if (l[i + m * k] != 0)
                        /* Rows are reversed. */
                        column[m - 1 - i] += l[i + m * k] * u[k + least * j];
    }
    free(l), free(u);
}

/* A = L L^H of an L with few digits. */
static void CALL(_definite)(T *a, INT n, INT ld)
{
    T *l = calloc((size_t)n * (size_t)n, sizeof *l);
    for (INT j = 0; j < n; j++)
        for (INT i = j; i < n; i++)
            l[i + n * j] = i == j ? 1 << (j % 3) : CALL(_some)(i, j, 1);
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)j] = 0;
    for (INT k = 0; k < n; k++)
        for (INT j = k; j < n; j++)
            if (l[j + n * k] != 0)
                for (INT i = k; i < n; i++)
                    a[i + (size_t)ld * (size_t)j] += l[i + n * k] * CONJ(l[j + n * k]);
    free(l);
}

/* B = op(A) X for an X of small integers. */
static void CALL(_sides)(const T *a, INT n, INT ld, T *b, INT sides, char op)
{
    for (INT s = 0; s < sides; s++)
        for (INT i = 0; i < n; i++) {
            T sum = 0;
            for (INT k = 0; k < n; k++) {
                T of = op == 'N' ? a[i + (size_t)ld * (size_t)k] : a[k + (size_t)ld * (size_t)i];
                sum += (op == 'C' ? CONJ(of) : of) * NUMBER((k + s) % 7 - 3, 0);
            }
            b[i + (size_t)n * (size_t)s] = sum;
        }
}

/* What LAPACK must leave as it is: not numbers, infinite ones, zeros with a sign. */
static void CALL(_odd)(T *at, INT which)
{
    static const R all[][2] = {{NAN, 0}, {1, INFINITY}, {-(R)0.0, -(R)0.0}, {-INFINITY, 1}, {3, -(R)0.0}};
    memcpy(at, all[which % 5], sizeof *at);
}

/* Whether it is so still; any NaN is as good as another. */
static int CALL(_still)(const T *at, INT which)
{
    T was;
    R parts[2][2];
    CALL(_odd)(&was, which);
    memcpy(parts[0], at, sizeof *at), memcpy(parts[1], &was, sizeof was);
    for (int part = 0; part <= COMPLEX; part++)
        if (!(isnan(parts[0][part]) && isnan(parts[1][part])) && memcmp(&parts[0][part], &parts[1][part], sizeof(R)))
            return 0;
    return 1;
}

/* How many elements of the other triangle are so still. They are zero then. */
static long CALL(_kept)(T *a, INT n, INT ld, char uplo)
{
    long kept = 0;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            if (uplo == 'L' ? i < j : i > j) {
                kept += CALL(_still)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
                a[i + (size_t)ld * (size_t)j] = 0;
            }
    return kept;
}

static void CALL(_solved)(const char *what, const T *b, INT n, INT sides)
{
    for (INT s = 0; s < sides; s++)
        for (INT i = 0; i < n; i++)
            if (b[i + (size_t)n * (size_t)s] != NUMBER((i + s) % 7 - 3, 0))
                failed(what, i, s);
}

#ifndef WIDE
/* A triangle with a diagonal of powers of two, whose other elements are in its first columns and last rows: its inverse has few digits. */
static T CALL(_triangle)(INT n, INT i, INT j)
{
    return i == j ? NUMBER(1 << (j % 3), 0) : i >= n / 2 && j < n / 2 ? CALL(_some)(i, j, 1) : 0;
}

static long CALL(_finite)(const T *a, INT n, INT ld)
{
    long finite = 0;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++) {
            T x = a[i + (size_t)ld * (size_t)j];
            finite += isfinite(creal(x)) && isfinite(cimag(x));
        }
    return finite;
}

/* Inverses, and solutions with a triangle. */
static void CALL(_inverses)(INT n)
{
    const INT ld = n + 3, sides = 5, lwork = 64 * n;
    const size_t all = (size_t)ld * (size_t)n;
    /* OpenBLAS 0.3.21's zpotri reads behind the last column, too. */
    T *a = calloc(all + 4 * (size_t)ld, sizeof *a);
    T *b = calloc((size_t)n * (size_t)sides, sizeof *b), *work = calloc((size_t)lwork, sizeof *work);
    INT *pivots = calloc((size_t)n, sizeof *pivots), info = -99;

    /* L is the triangle, with a unit diagonal, U its transpose; the rows are reversed. */
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++) {
            T sum = 0;
            for (INT k = 0; k <= (i < j ? i : j); k++)
                sum += (i == k ? 1 : CALL(_triangle)(n, i, k) / 4) * CALL(_triangle)(n, j, k);
            a[n - 1 - i + (size_t)ld * (size_t)j] = sum;
        }
    GETRF(&n, &n, a, &ld, pivots, &info);
    printf("getri %ld", (long)info);
    /* LAPACK does not read the last one. */
    pivots[n - 1] = 1;
    GETRI(&n, a, &ld, pivots, work, &lwork, &info);
    printf(" %ld %016" PRIx64 " work %g\n", (long)info, CALL(_hash)(a, n, n, ld), creal(work[0]));
    /* A zero on the diagonal of U. */
    for (INT i = 0; i < n; i++)
        pivots[i] = i + 1, a[i + (size_t)ld * (size_t)i] = i != n / 3;
    GETRI(&n, a, &ld, pivots, work, &lwork, &info);
    printf("getri of a singular matrix %ld\n", (long)info);
    GETRI(&n, a, &ld, pivots, work, &(INT){n - 1}, &info);
    printf("getri in little workspace %ld\n", (long)info);

    /* Infinite numbers beside the diagonal of factors: how far they spread is LAPACK's affair. */
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)j] = i == j;
    a[n - 1] = INFINITY;
    GETRI(&n, a, &ld, pivots, work, &lwork, &info);
    printf("getri of an infinite matrix %ld %ld\n", (long)info, CALL(_finite)(a, n, ld));
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)j] = i == j;
    a[n - 1] = INFINITY;
    POTRI("L", &n, a, &ld, &info);
    printf("potri of an infinite matrix %ld %ld\n", (long)info, CALL(_finite)(a, n, ld));

    for (const char *uplo = "LU"; *uplo; uplo++) {
        for (const char *op = "NTC"; *op; op++)
            for (const char *diag = "NU"; *diag; diag++) {
                for (INT j = 0; j < n; j++)
                    for (INT i = 0; i < n; i++)
                        if (*uplo == 'L' ? i < j : i > j)
                            CALL(_odd)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
                        else
                            a[i + (size_t)ld * (size_t)j] = *uplo == 'L' ? CALL(_triangle)(n, i, j) : CALL(_triangle)(n, j, i);
                for (INT i = 0; i < n * sides; i++)
                    b[i] = NUMBER(i % 7 - 3, i % 3);
                TRTRS(uplo, op, diag, &n, &sides, a, &ld, b, &n, &info);
                printf("trtrs %c%c%c %ld %016" PRIx64 "\n", *uplo, *op, *diag, (long)info, CALL(_hash)(b, n, sides, n));
            }
        POTRI(uplo, &n, a, &ld, &info);
        long kept = CALL(_kept)(a, n, ld, *uplo);
        printf("potri %c %ld %ld %016" PRIx64 "\n", *uplo, (long)info, kept, CALL(_hash)(a, n, n, ld));
        a[n / 3 + (size_t)ld * (size_t)(n / 3)] = 0;
        TRTRS(uplo, "N", "N", &n, &sides, a, &ld, b, &n, &info);
        printf("trtrs of a singular triangle %ld\n", (long)info);
        POTRI(uplo, &n, a, &ld, &info);
        printf("potri of a singular factor %ld\n", (long)info);
    }
    free(a), free(b), free(work), free(pivots);
}

/* Condition numbers by the factors of matrices, of one that has a zero on its diagonal, and of one that overflows. */
static void CALL(_conditions)(INT n)
{
    const INT ld = n + 3;
    const size_t all = (size_t)ld * (size_t)n;
    T *a = calloc(all, sizeof *a), *work = calloc((size_t)n * 4, sizeof *work);
    double *more = calloc((size_t)n * 2, sizeof *more);
    INT *pivots = calloc((size_t)n, sizeof *pivots), info = -99;
    R norm = 200, rcond = -1, none = 0;
    CALL(_general)(a, n, n, ld);
    GETRF(&n, &n, a, &ld, pivots, &info);
    for (const char *which = "1OI"; *which; which++) {
        GECON(which, &n, a, &ld, &norm, &rcond, work, more, &info);
        printf("gecon %c %ld %.5g\n", *which, (long)info, (double)rcond);
    }
    GECON("1", &n, a, &ld, &none, &rcond, work, more, &info);
    printf("gecon of zeros %ld %g\n", (long)info, (double)rcond);
    T *middle = &a[n / 3 + (size_t)ld * (size_t)(n / 3)];
    *middle = sizeof(R) == 4 ? 1e-38 : 1e-307;
    GECON("1", &n, a, &ld, &norm, &rcond, work, more, &info);
    printf("gecon that overflows %ld %.5g\n", (long)info, (double)rcond);
    *middle = 0;
    GECON("I", &n, a, &ld, &norm, &rcond, work, more, &info);
    printf("gecon of a singular matrix %ld %.5g\n", (long)info, (double)rcond);
    for (const char *uplo = "LU"; *uplo; uplo++) {
        CALL(_definite)(a, n, ld);
        POTRF(uplo, &n, a, &ld, &info);
        POCON(uplo, &n, a, &ld, &norm, &rcond, work, more, &info);
        printf("pocon %c %ld %.5g\n", *uplo, (long)info, (double)rcond);
    }
    /* Of triangles in blocks, whose solutions have zeros. */
    for (int seed = 1; seed <= 8; seed++) {
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                a[i + (size_t)ld * (size_t)j] = i == j ? 1 << (i * seed % 3) : i < j && i / 5 == j / 5 ? NUMBER((i * 7 + j * seed) % 5 - 2, (i + j) % 2) : 0;
        GECON("1", &n, a, &ld, &norm, &rcond, work, more, &info);
        printf("gecon of blocks %ld %.5g\n", (long)info, (double)rcond);
    }
    free(a), free(work), free(more), free(pivots);
}

/* The distance between two matrices, of integers up to 9 and their products with Q, is below what rounding in `order` steps makes. */
static void CALL(_near)(const char *what, const T *x, INT ldx, const T *y, INT ldy, INT rows, INT cols, INT order)
{
    const double limit = (sizeof(R) == 4 ? 1e-6 : 1e-15) * 30 * order;
    for (INT j = 0; j < cols; j++)
        for (INT i = 0; i < rows; i++)
            /* Also if it is not a number. */
            if (!(cabs((double complex)(x[i + (size_t)ldx * (size_t)j] - y[i + (size_t)ldy * (size_t)j])) <= limit))
                failed(what, i, j);
}

/* The QR factorization of an m by n matrix, Q with `cols` columns, and products with it. */
static void CALL(_qr)(INT m, INT n, INT cols)
{
    const INT ld = m + 3, least = m < n ? m : n, wide = n > m ? n : m, lwork = 64 * wide;
    const size_t all = (size_t)ld * (size_t)wide;
    T *a = calloc(all, sizeof *a), *r = calloc(all, sizeof *r), *q = calloc(all, sizeof *q), *of = calloc(all, sizeof *of);
    T *tau = calloc((size_t)wide, sizeof *tau), *work = calloc((size_t)lwork, sizeof *work);
    INT info = -99;
    uint32_t drawn = 1;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < m; i++) {
            drawn = drawn * 1664525 + 1013904223;
            a[i + (size_t)ld * (size_t)j] = NUMBER((int)(drawn >> 20) % 19 - 9, (int)(drawn >> 10) % 17 - 8);
        }
    memcpy(of, a, all * sizeof *a);
    GEQRF(&m, &n, of, &ld, tau, work, &lwork, &info);
    printf("geqrf %ld work %g\n", (long)info, creal(work[0]));
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i <= j && i < m; i++) {
            r[i + (size_t)ld * (size_t)j] = of[i + (size_t)ld * (size_t)j];
            if (i == j && (cimag(r[i + (size_t)ld * (size_t)j]) != 0 || cabs((double complex)tau[i]) > 2))
                failed("the sign of a reflector", i, j);
        }
    /* Q R and Q^H A. */
    memcpy(q, r, all * sizeof *q);
    APPLYQ("L", "N", &m, &n, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
    CALL(_near)("Q R", q, ld, a, ld, m, n, wide);
    printf("ormqr %ld work %g\n", (long)info, creal(work[0]));
    memcpy(q, a, all * sizeof *q);
    APPLYQ("L", TURNED, &m, &n, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
    CALL(_near)("Q^H A", q, ld, r, ld, m, n, wide);
    /* Q by itself: its columns are orthonormal, and the product with R is A. */
    if (m >= n) {
        memcpy(q, of, all * sizeof *q);
        FORMQ(&m, &cols, &least, q, &ld, tau, work, &lwork, &info);
        printf("orgqr %ld work %g\n", (long)info, creal(work[0]));
        const T one = 1, zero = 0;
        T *product = calloc((size_t)wide * (size_t)wide, sizeof *product), *unit = calloc((size_t)wide * (size_t)wide, sizeof *unit);
        GEMM("N", "N", &m, &n, &n, &one, q, &ld, r, &ld, &zero, product, &m);
        CALL(_near)("Q times R", product, m, a, ld, m, n, wide);
        GEMM("C", "N", &cols, &cols, &m, &one, q, &ld, q, &ld, &zero, product, &cols);
        for (INT i = 0; i < cols; i++)
            unit[i + (size_t)cols * (size_t)i] = 1;
        CALL(_near)("Q^H Q", product, cols, unit, cols, cols, cols, wide);
        /* From the right: (X Q) Q^H is X. */
        INT rows = 7;
        T *x = calloc((size_t)rows * (size_t)m, sizeof *x), *was = calloc((size_t)rows * (size_t)m, sizeof *was);
        for (INT i = 0; i < rows * m; i++)
            x[i] = was[i] = NUMBER(i % 9 - 4, i % 5);
        APPLYQ("R", "N", &rows, &m, &least, of, &ld, tau, x, &rows, work, &lwork, &info);
        APPLYQ("R", TURNED, &rows, &m, &least, of, &ld, tau, x, &rows, work, &lwork, &info);
        CALL(_near)("X Q Q^H", x, rows, was, rows, rows, m, wide);
        free(product), free(unit), free(x), free(was);
    }
    /* Elements whose squares no number holds. */
    const R small = sizeof(R) == 4 ? 1e-25 : 1e-170, large = sizeof(R) == 4 ? 1e25 : 1e170, scale[] = {small, large};
    for (int k = 0; k < (m > n && cols == n ? 2 : 0); k++) {
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < m; i++)
                of[i + (size_t)ld * (size_t)j] = a[i + (size_t)ld * (size_t)j] * scale[k];
        GEQRF(&m, &n, of, &ld, tau, work, &lwork, &info);
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < m; i++)
                q[i + (size_t)ld * (size_t)j] = i <= j ? of[i + (size_t)ld * (size_t)j] / scale[k] : 0;
        APPLYQ("L", "N", &m, &n, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
        CALL(_near)("Q R of extreme numbers", q, ld, a, ld, m, n, wide);
    }
    /* A column that is next to nothing beside the others: Q is unitary nevertheless. */
    memcpy(of, a, all * sizeof *a);
    for (INT i = 0; i < m; i++)
        of[i + (size_t)ld * (size_t)(n / 2)] *= sizeof(R) == 4 ? 1e-42f : 1e-320;
    GEQRF(&m, &n, of, &ld, tau, work, &lwork, &info);
    memcpy(q, a, all * sizeof *a);
    APPLYQ("L", "N", &m, &n, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
    APPLYQ("L", TURNED, &m, &n, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
    CALL(_near)("Q^H Q A", q, ld, a, ld, m, n, wide);
    GEQRF(&m, &n, of, &ld, tau, work, &(INT){n - 1}, &info);
    printf("geqrf in little workspace %ld\n", (long)info);
    free(a), free(r), free(q), free(of), free(tau), free(work);
}
#include "solvers_rows.h"
#include "solvers_symmetric.h"
#endif

static void CALL(_run)(INT n)
{
    const INT sides = 5, ld = n + 3, wide = n + 40;
    /* The matrix lies in the middle of other data, which changes between calls. */
    T *memory = calloc((size_t)ld * (size_t)wide + 64, sizeof *memory), *a = memory + 5, *end = a + (size_t)ld * (size_t)wide;
    T *b = calloc((size_t)n * (size_t)sides, sizeof *b), *copy = calloc((size_t)ld * (size_t)wide, sizeof *copy);
    INT *pivots = calloc((size_t)wide, sizeof *pivots), info = -99;
    const size_t all = (size_t)ld * (size_t)n * sizeof *a;
    uint64_t of_pivots = 0;

    for (int turn = 0; turn < 2; turn++) {
        memory[0] = *end = NUMBER(turn, 0);
        CALL(_general)(a, n, n, ld);
        memcpy(copy, a, all);
        GETRF(&n, &n, a, &ld, pivots, &info);
        memory[1] = memory[0];
        printf("getrf %ld", (long)info);
        for (const char *op = "NTC"; *op; op++) {
            CALL(_sides)(copy, n, ld, b, sides, *op);
            GETRS(op, &n, &sides, a, &ld, pivots, b, &n, &info);
            CALL(_solved)("getrs", b, n, sides);
        }
        for (INT i = 0; i < n; i++)
            of_pivots = of_pivots * 31 + (uint64_t)pivots[i];
        printf(" %016" PRIx64 " %016" PRIx64 "\n", CALL(_hash)(a, n, n, ld), of_pivots);
    }
    /* The factor changes. */
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    a[n / 2 + (size_t)ld * (size_t)(n / 2)] *= 2;
    GETRS("N", &n, &sides, a, &ld, pivots, b, &n, &info);
    printf("changed %016" PRIx64 "\n", CALL(_hash)(b, n, sides, n));

    memcpy(a, copy, all);
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    GESV(&n, &sides, a, &ld, pivots, b, &n, &info);
    CALL(_solved)("gesv", b, n, sides);
    printf("gesv %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, n, ld));

    /* Right sides on the stack. */
    T stack[n];
    memcpy(a, copy, all);
    CALL(_sides)(copy, n, ld, stack, 1, 'N');
    GESV(&n, &(INT){1}, a, &ld, pivots, stack, &n, &info);
    CALL(_solved)("gesv on the stack", stack, n, 1);

    for (const char *uplo = "LU"; *uplo; uplo++) {
        CALL(_definite)(a, n, ld);
        memcpy(copy, a, all);
        /* The other triangle is neither read nor changed. */
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                if (*uplo == 'L' ? i < j : i > j)
                    CALL(_odd)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
        POTRF(uplo, &n, a, &ld, &info);
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        POTRS(uplo, &n, &sides, a, &ld, b, &n, &info);
        CALL(_solved)("potrs", b, n, sides);
        long kept = CALL(_kept)(a, n, ld, *uplo);
        printf("potrf %c %ld %ld %016" PRIx64 "\n", *uplo, (long)info, kept, CALL(_hash)(a, n, n, ld));
        memcpy(a, copy, all);
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        POSV(uplo, &n, &sides, a, &ld, b, &n, &info);
        CALL(_solved)("posv", b, n, sides);
        printf("posv %ld\n", (long)info);
    }

    /* INFO other than 0: LAPACK's own results. */
    memcpy(a, copy, all);
    a[n / 3 + (size_t)ld * (size_t)(n / 3)] = NUMBER(-1, 0);
    POTRF("L", &n, a, &ld, &info);
    printf("not definite %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n / 3, n / 3, ld));
    memcpy(a, copy, all);
    a[n / 3 + (size_t)ld * (size_t)(n / 3)] = NUMBER(NAN, 0);
    POTRF("U", &n, a, &ld, &info);
    printf("not a number %ld\n", (long)info);
    CALL(_general)(a, n, n, ld);
    for (INT i = 0; i < n; i++)
        a[i + (size_t)ld * (size_t)(n - 2)] = 0;
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    uint64_t before = CALL(_hash)(b, n, sides, n);
    GESV(&n, &sides, a, &ld, pivots, b, &n, &info);
    printf("singular %ld %d %016" PRIx64 "\n", (long)info, before == CALL(_hash)(b, n, sides, n), CALL(_hash)(a, n, n, ld));

    /* Flat and tall. */
    CALL(_general)(a, n, wide, ld);
    GETRF(&n, &wide, a, &ld, pivots, &info);
    printf("flat %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, wide, ld));
    CALL(_general)(a, n, n - 20, ld);
    GETRF(&n, &(INT){n - 20}, a, &ld, pivots, &info);
    printf("tall %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, n - 20, ld));
    GETRF(&(INT){0}, &n, a, &ld, pivots, &info);
    printf("empty %ld\n", (long)info);

#ifndef WIDE
    /* A product, its factor, and a solution: nothing is read in between. */
    const T one = 1, zero = 0;
    T *square = calloc((size_t)n * (size_t)n, sizeof *square);
    CALL(_definite)(copy, n, n);
    CALL(_definite)(a, n, n);
    for (INT i = 0; i < n * n; i++)
        a[i] = 0;
    for (INT i = 0; i < n; i++)
        a[i + n * i] = 1;
    GEMM("N", "N", &n, &n, &n, &one, copy, &n, a, &n, &zero, square, &n);
    POTRF("L", &n, square, &n, &info);
    CALL(_sides)(copy, n, n, b, sides, 'N');
    POTRS("L", &n, &sides, square, &n, b, &n, &info);
    CALL(_solved)("chain", b, n, sides);
    free(square);
    CALL(_inverses)(n);
    CALL(_conditions)(n);
    CALL(_symmetric)(n);
    CALL(_qr)(n + 30, n, n);
    CALL(_qr)(n, n, n);
    CALL(_qr)(n + 30, n, n + 20);
    CALL(_qr)(n, n + 30, n);
    CALL(_lq)(n, n + 30, n);
    CALL(_lq)(n, n, n);
    CALL(_lq)(n + 30, n, n);
    CALL(_least)(n + 30, n, sides);
    CALL(_least)(n, n + 30, sides);
    CALL(_triangles)(n);
    for (enum way way = BY_VALUES; way <= BY_PIVOTING; way++)
        CALL(_singular)(n / 2 + 10, n / 4, sides, way);
    CALL(_pivoted)(n < 240 ? n : 240, n < 240 ? n / 4 * 3 : 180);
    CALL(_pivoted)(110, 80);
    CALL(_pivoted)(80, 80);
    CALL(_pivoted)(80, 110);
#endif
    free(memory), free(b), free(copy), free(pivots);
}

#undef CALL
#undef GETRF
#undef GETRS
#undef GESV
#undef POTRF
#undef POTRS
#undef POSV
#undef TRSM
#undef GEMM
#undef GETRI
#undef POTRI
#undef TRTRS
#undef GEQRF
#undef GECON
#undef POCON
#undef FORMQ
#undef APPLYQ
#undef TURNED
#undef NUMBER
#undef CONJ
#undef T
#undef R
#undef P
#undef COMPLEX
#undef SUFFIX
