/* More tests of solvers.c for one element type: LQ, QR with pivoting, least squares, inverses of triangles and their squares. Reflectors that plain loops make of
 * columns, as LAPACK's geqr2 does, say what the others must give up to rounding. */

#define GELQF CALL(gelqf_)
#define GELS CALL(gels_)
#define GELSD CALL(gelsd_)
#define GELSS CALL(gelss_)
#define GELSY CALL(gelsy_)
#define GEQP3 CALL(geqp3_)
#define TRTRI CALL(trtri_)
#define LAUUM CALL(lauum_)
#if COMPLEX
#define FORMROWS CALL(unglq_)
#define APPLYROWS CALL(unmlq_)
#else
#define FORMROWS CALL(orglq_)
#define APPLYROWS CALL(ormlq_)
#endif

extern void GELQF(const INT *, const INT *, T *, const INT *, T *, T *, const INT *, INT *);
extern void FORMROWS(const INT *, const INT *, const INT *, T *, const INT *, const T *, T *, const INT *, INT *);
extern void APPLYROWS(const char *, const char *, const INT *, const INT *, const INT *, const T *, const INT *, const T *, T *, const INT *,
                      T *, const INT *, INT *);
extern void GELS(const char *, const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, T *, const INT *, INT *);
#if COMPLEX
extern void GELSD(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, R *, const R *, INT *, T *, const INT *, R *,
                  INT *, INT *);
extern void GELSS(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, R *, const R *, INT *, T *, const INT *, R *,
                  INT *);
extern void GELSY(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, INT *, const R *, INT *, T *, const INT *, R *,
                  INT *);
extern void GEQP3(const INT *, const INT *, T *, const INT *, INT *, T *, T *, const INT *, R *, INT *);
#else
extern void GELSD(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, R *, const R *, INT *, T *, const INT *, INT *,
                  INT *);
extern void GELSS(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, R *, const R *, INT *, T *, const INT *, INT *);
extern void GELSY(const INT *, const INT *, const INT *, T *, const INT *, T *, const INT *, INT *, const R *, INT *, T *, const INT *, INT *);
extern void GEQP3(const INT *, const INT *, T *, const INT *, INT *, T *, T *, const INT *, INT *);
#endif
extern void TRTRI(const char *, const char *, const INT *, T *, const INT *, INT *);
extern void LAUUM(const char *, const INT *, T *, const INT *, INT *);

/* A matrix of small integers. */
static void CALL(_drawn)(T *a, INT m, INT n, INT ld, uint32_t seed)
{
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < m; i++) {
            seed = seed * 1664525 + 1013904223;
            a[i + (size_t)ld * (size_t)j] = NUMBER((int)(seed >> 20) % 19 - 9, (int)(seed >> 10) % 17 - 8);
        }
}

static T *CALL(_zeros)(size_t count) { return calloc(count, sizeof(T)); }

/* The conjugate transpose of an m by n matrix. */
static void CALL(_turn)(const T *a, INT m, INT n, INT ld, T *to)
{
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < m; i++)
            to[j + (size_t)ld * (size_t)i] = CONJ(a[i + (size_t)ld * (size_t)j]);
}

/* Applies the reflector of a column of A, I - tau v v^H, to a column of B. */
static void CALL(_reflect)(const T *a, INT m, INT ld, INT k, T tau, T *b)
{
    const T *v = a + (size_t)ld * (size_t)k;
    T sum = b[k];
    for (INT i = k + 1; i < m; i++)
        sum += CONJ(v[i]) * b[i];
    sum *= tau;
    b[k] -= sum;
    for (INT i = k + 1; i < m; i++)
        b[i] -= sum * v[i];
}

/* Q B or Q^H B, Q of the first k columns of A. */
static void CALL(_apply)(const T *a, INT m, INT k, INT ld, const T *tau, int adjoint, T *b, INT sides)
{
    for (INT s = 0; s < sides; s++)
        for (INT step = 0; step < k; step++) {
            INT at = adjoint ? step : k - 1 - step;
            CALL(_reflect)(a, m, ld, at, adjoint ? CONJ(tau[at]) : tau[at], b + (size_t)ld * (size_t)s);
        }
}

/* The QR factorization of an m by n matrix. */
static void CALL(_factor)(T *a, INT m, INT n, INT ld, T *tau)
{
    for (INT k = 0; k < m && k < n; k++) {
        T *v = a + (size_t)ld * (size_t)k, first = v[k];
        double below = 0, size = creal(first) * creal(first) + cimag(first) * cimag(first), beta;
        for (INT i = k + 1; i < m; i++)
            below += creal(v[i]) * creal(v[i]) + cimag(v[i]) * cimag(v[i]);
        tau[k] = 0;
        if (below == 0 && cimag(first) == 0)
            continue;
        beta = creal(first) >= 0 ? -sqrt(size + below) : sqrt(size + below);
        tau[k] = (beta - first) / beta;
        for (INT i = k + 1; i < m; i++)
            v[i] /= first - (R)beta;
        v[k] = beta;
        for (INT j = k + 1; j < n; j++)
            CALL(_reflect)(a, m, ld, k, CONJ(tau[k]), a + (size_t)ld * (size_t)j);
    }
}

/* Solves with the triangle R of a factorization, n by n, or with its conjugate transpose. */
static void CALL(_by_r)(const T *a, INT n, INT ld, int adjoint, T *b, INT sides)
{
    for (INT s = 0; s < sides; s++)
        for (INT step = 0; step < n; step++) {
            INT i = adjoint ? step : n - 1 - step;
            T sum = b[i + (size_t)ld * (size_t)s];
            for (INT j = adjoint ? 0 : i + 1; j < (adjoint ? i : n); j++)
                sum -= (adjoint ? CONJ(a[j + (size_t)ld * (size_t)i]) : a[i + (size_t)ld * (size_t)j]) * b[j + (size_t)ld * (size_t)s];
            b[i + (size_t)ld * (size_t)s] = sum / (adjoint ? CONJ(a[i + (size_t)ld * (size_t)i]) : a[i + (size_t)ld * (size_t)i]);
        }
}

/* The LQ factorization of an m by n matrix, Q with `rows` rows, and products with it. */
static void CALL(_lq)(INT m, INT n, INT rows)
{
    const INT ld = (m > n ? m : n) + 3, least = m < n ? m : n, wide = ld, lwork = 64 * wide;
    const size_t all = (size_t)ld * (size_t)wide;
    T *a = CALL(_zeros)(all), *of = CALL(_zeros)(all), *plain = CALL(_zeros)(all), *q = CALL(_zeros)(all), *x = CALL(_zeros)(all);
    T *columns = CALL(_zeros)(all), *turned = CALL(_zeros)(all);
    T *tau = CALL(_zeros)((size_t)wide), *plain_tau = CALL(_zeros)((size_t)wide), *work = CALL(_zeros)((size_t)lwork);
    INT info = -99;
    CALL(_drawn)(a, m, n, ld, 3);
    memcpy(of, a, all * sizeof *a);
    CALL(_turn)(a, m, n, ld, columns);
    CALL(_factor)(columns, n, m, ld, plain_tau);
    CALL(_turn)(columns, n, m, ld, plain);
    GELQF(&m, &n, of, &ld, tau, work, &lwork, &info);
    printf("gelqf %ld work %g\n", (long)info, creal(work[0]));
    CALL(_near)("gelqf", of, ld, plain, ld, m, n, wide);
    CALL(_near)("tau of gelqf", tau, wide, plain_tau, wide, least, 1, wide);
    if (m <= n) {
        memcpy(q, of, all * sizeof *q);
        for (INT i = 0; i < rows; i++)
            turned[i + (size_t)ld * (size_t)i] = 1;
        CALL(_apply)(columns, n, least, ld, plain_tau, 0, turned, rows);
        CALL(_turn)(turned, n, rows, ld, x);
        FORMROWS(&rows, &n, &least, q, &ld, tau, work, &lwork, &info);
        printf("orglq %ld work %g\n", (long)info, creal(work[0]));
        CALL(_near)("orglq", q, ld, x, ld, rows, n, wide);
    }
    for (const char *side = "LR"; *side; side++)
        for (const char *op = "N" TURNED; *op; op++) {
            const INT few = 6, height = *side == 'L' ? n : few, width = *side == 'L' ? few : n;
            CALL(_drawn)(q, height, width, ld, 5), CALL(_drawn)(x, height, width, ld, 5);
            if (*side == 'L')
                CALL(_apply)(columns, n, least, ld, plain_tau, *op == 'N', x, few);
            else {
                /* X Q is the conjugate transpose of Q^H X^H. */
                CALL(_turn)(x, height, width, ld, turned);
                CALL(_apply)(columns, n, least, ld, plain_tau, *op != 'N', turned, few);
                CALL(_turn)(turned, width, height, ld, x);
            }
            APPLYROWS(side, op, &height, &width, &least, of, &ld, tau, q, &ld, work, &lwork, &info);
            printf("ormlq %c%c %ld work %g\n", *side, *op, (long)info, creal(work[0]));
            CALL(_near)("ormlq", q, ld, x, ld, height, width, wide);
        }
    /* Elements whose squares no number holds. */
    const R small = sizeof(R) == 4 ? 1e-25 : 1e-170, large = sizeof(R) == 4 ? 1e25 : 1e170, scale[] = {small, large};
    for (int k = 0; k < (m < n ? 2 : 0); k++) {
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < m; i++)
                of[i + (size_t)ld * (size_t)j] = a[i + (size_t)ld * (size_t)j] * scale[k];
        GELQF(&m, &n, of, &ld, tau, work, &lwork, &info);
        for (INT j = 0; j < n; j++)
            for (INT i = j; i < m; i++)
                of[i + (size_t)ld * (size_t)j] /= scale[k];
        CALL(_near)("gelqf of extreme numbers", of, ld, plain, ld, m, n, wide);
    }
    GELQF(&m, &n, of, &ld, tau, work, &(INT){m - 1}, &info);
    printf("gelqf in little workspace %ld\n", (long)info);
    free(a), free(of), free(plain), free(q), free(x), free(columns), free(turned), free(tau), free(plain_tau), free(work);
}

/* Least squares with an m by n matrix. */
static void CALL(_least)(INT m, INT n, INT sides)
{
    const INT most = m > n ? m : n, least = m < n ? m : n, ld = most + 3, lwork = 64 * (most + sides);
    const size_t all = (size_t)ld * (size_t)most, right = (size_t)ld * (size_t)sides;
    T *a = CALL(_zeros)(all), *of = CALL(_zeros)(all), *plain = CALL(_zeros)(all), *work = CALL(_zeros)((size_t)lwork);
    T *b = CALL(_zeros)(right), *x = CALL(_zeros)(right), *tau = CALL(_zeros)((size_t)most), *columns = CALL(_zeros)(all);
    INT info = -99;
    CALL(_drawn)(a, m, n, ld, 11);
    if (m < n)
        CALL(_turn)(a, m, n, ld, columns);
    else
        memcpy(columns, a, all * sizeof *a);
    CALL(_factor)(columns, most, least, ld, tau);
    if (m < n)
        CALL(_turn)(columns, n, m, ld, plain);
    else
        memcpy(plain, columns, all * sizeof *a);
    for (const char *op = "N" TURNED; *op; op++) {
        const int turned = *op != 'N';
        const INT height = turned ? n : m, width = turned ? m : n;
        for (int k = 0; k < 5; k++) {
            /* As it is; A or B so small or large that LAPACK scales it; no right side but zeros. */
            const R tiny = sizeof(R) == 4 ? 1e-36 : 1e-303, large = sizeof(R) == 4 ? 1e34 : 1e303;
            const R of_a = k == 1 ? tiny : k == 2 ? large : 1, of_b = k == 3 ? tiny : k == 4 ? 0 : 1;
            if ((k > 0 && turned) || (k > 0 && k < 4 && m < n))
                continue;
            for (INT j = 0; j < n; j++)
                for (INT i = 0; i < m; i++)
                    of[i + (size_t)ld * (size_t)j] = a[i + (size_t)ld * (size_t)j] * of_a;
            /* What is below the right sides is not read. */
            memset(x, 0, right * sizeof *x);
            CALL(_drawn)(x, height, sides, ld, 13);
            for (INT j = 0; j < sides; j++)
                for (INT i = 0; i < most; i++)
                    b[i + (size_t)ld * (size_t)j] = i < height ? x[i + (size_t)ld * (size_t)j] * of_b : NUMBER(NAN, NAN);
            if (height < width || (m == n && turned))
                CALL(_by_r)(columns, least, ld, 1, x, sides), CALL(_apply)(columns, most, least, ld, tau, 0, x, sides);
            else
                CALL(_apply)(columns, most, least, ld, tau, 1, x, sides), CALL(_by_r)(columns, least, ld, 0, x, sides);
            GELS(op, &m, &n, &sides, of, &ld, b, &ld, work, &(INT){least + (least > sides ? least : sides)}, &info);
            printf("gels %c %ld work %g\n", *op, (long)info, creal(work[0]));
            for (INT j = 0; j < sides; j++)
                for (INT i = 0; i < width; i++) {
                    T *at = &b[i + (size_t)ld * (size_t)j];
                    if (k == 4)
                        x[i + (size_t)ld * (size_t)j] = 0;
                    else
                        *at = *at * of_a / of_b;
                }
            CALL(_near)("gels", b, ld, x, ld, width, sides, most);
            if (k == 0) {
                CALL(_near)("the factors of gels", of, ld, plain, ld, m, n, most);
                CALL(_near)("what gels leaves", b + width, ld, x + width, ld, most - width, sides, most);
            }
        }
    }
    /* Rows and columns of zeros; numbers that are none. */
    for (INT i = 0; i < m; i++)
        a[i + (size_t)ld * (size_t)(least / 2)] = 0;
    for (INT j = 0; j < n; j++)
        a[least / 2 + (size_t)ld * (size_t)j] = 0;
    memcpy(of, a, all * sizeof *a);
    CALL(_drawn)(b, m, sides, ld, 13);
    GELS("N", &m, &n, &sides, of, &ld, b, &ld, work, &lwork, &info);
    printf("gels of a singular matrix %ld\n", (long)info);
    CALL(_drawn)(a, m, n, ld, 11), CALL(_drawn)(b, most, sides, ld, 13);
    b[least / 2] = NUMBER(INFINITY, 0);
    GELS("N", &m, &n, &sides, a, &ld, b, &ld, work, &lwork, &info);
    printf("gels of infinite right sides %ld\n", (long)info);
    GELS("N", &m, &n, &sides, a, &ld, b, &ld, work, &(INT){least}, &info);
    printf("gels in little workspace %ld\n", (long)info);
    memset(a, 0, all * sizeof *a), CALL(_drawn)(b, most, sides, ld, 13);
    GELS("N", &m, &n, &sides, a, &ld, b, &ld, work, &lwork, &info);
    printf("gels of zeros %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(b, n, sides, ld));
    free(a), free(of), free(plain), free(work), free(b), free(x), free(tau), free(columns);
}

/* QR with column pivoting of an m by n matrix: A P = Q R, where no column of R is longer, from any row on, than the diagonal element there. */
static void CALL(_pivoted)(INT m, INT n)
{
    const INT ld = m + 3, least = m < n ? m : n, wide = n > m ? n : m, lwork = 64 * (wide + 1), few = least <= 128;
    const size_t all = (size_t)ld * (size_t)n;
    T *a = CALL(_zeros)(all), *of = CALL(_zeros)(all), *q = CALL(_zeros)(all), *tau = CALL(_zeros)((size_t)n), *work = CALL(_zeros)((size_t)lwork);
    R *more = calloc(2 * (size_t)n, sizeof *more), *left = calloc((size_t)n, sizeof *left);
    INT *order = calloc((size_t)n, sizeof *order), info = -99;
    (void)more;
    for (int k = 0; k < 6; k++) {
        /* Columns of one length, but for rounding; of different lengths; equal ones and zeros; so small that no square is a number; one column
           that the program puts first; little workspace. */
        const R tiny = sizeof(R) == 4 ? 1e-25 : 1e-170, of_a = k == 3 ? tiny : 1;
        const INT room = k == 5 ? n : COMPLEX ? n + 1 : 3 * n + 1;
        /* A large matrix once; the host's LAPACK, by many calls, one small one. */
        if ((k != 1 && !few) || (k == 4 && m <= n))
            continue;
        CALL(_drawn)(a, m, n, ld, 23);
        for (INT j = 0; j < n && k != 0; j++)
            for (INT i = 0; i < m; i++)
                a[i + ld * j] *= (R)pow(0.97, (j * 7) % n);
        for (INT j = 0; j < n && k == 2; j++)
            for (INT i = 0; i < m; i++)
                a[i + ld * j] = j % 5 == 3 ? 0 : j % 5 == 4 ? a[i + ld * (j - 2)] : a[i + ld * j];
        for (size_t i = 0; i < all; i++)
            of[i] = a[i] * of_a;
        memset(order, 0, (size_t)n * sizeof *order);
        order[n / 2] = k == 4;
#if COMPLEX
        GEQP3(&m, &n, of, &ld, order, tau, work, &(INT){k < 4 ? lwork : room}, more, &info);
#else
        GEQP3(&m, &n, of, &ld, order, tau, work, &(INT){k < 4 ? lwork : room}, &info);
#endif
        /* With few rows or columns LAPACK leaves another size of workspace than it asks for. */
        printf("geqp3 %ld work %g\n", (long)info, few ? 0 : creal(work[0]));
        if (info)
            continue;
        /* Rounding decides between columns of one length, and what is left of equal ones. */
        uint64_t hash = 0;
        for (INT j = 0; j < n; j++)
            hash = hash * 31 + (uint64_t)order[j];
        if (sizeof(R) == 8 && k != 2)
            printf("columns %016" PRIx64 "\n", hash);
        memset(left, 0, (size_t)n * sizeof *left);
        memset(q, 0, all * sizeof *q);
        for (INT i = least - 1; i >= 0; i--) {
            const R size = (R)cabs((double complex)(of[i + ld * i] / of_a));
            for (INT j = i; j < n; j++) {
                q[i + ld * j] = of[i + ld * j] / of_a;
                left[j] = (R)hypot(left[j], cabs((double complex)q[i + ld * j]));
                if (k != 4 && !(left[j] <= size * (1 + (R)wide * (sizeof(R) == 4 ? 1e-5 : 1e-13)) + (sizeof(R) == 4 ? 2e-4 : 1e-12)))
                    failed("the column that is chosen", i, j);
            }
        }
        CALL(_apply)(of, m, least, ld, tau, 0, q, n);
        for (INT j = 0; j < n; j++)
            CALL(_near)("A P = Q R", q + ld * j, ld, a + ld * (order[j] - 1), ld, m, 1, wide);
    }
    if (few && m > n) {
        CALL(_drawn)(of, m, n, ld, 23);
        of[m / 2 + ld * (n / 2)] = NUMBER(INFINITY, 0);
        memset(order, 0, (size_t)n * sizeof *order);
#if COMPLEX
        GEQP3(&m, &n, of, &ld, order, tau, work, &lwork, more, &info);
#else
        GEQP3(&m, &n, of, &ld, order, tau, work, &lwork, &info);
#endif
        printf("geqp3 of an infinite number %ld\n", (long)info);
    }
    free(a), free(of), free(q), free(tau), free(work), free(more), free(left), free(order);
}

/* Least squares by singular values, or by QR with column pivoting, with an m by n matrix. */
static void CALL(_singular)(INT m, INT n, INT sides, enum way way)
{
    const INT ld = m + 3;
    const size_t all = (size_t)ld * (size_t)n, right = (size_t)ld * (size_t)sides;
    T *a = CALL(_zeros)(all), *of = CALL(_zeros)(all), *columns = CALL(_zeros)(all), *b = CALL(_zeros)(right), *x = CALL(_zeros)(right);
    T *tau = CALL(_zeros)((size_t)n), *work = CALL(_zeros)(1 << 18);
    R *values = calloc((size_t)n, sizeof *values), *more = calloc(1 << 18, sizeof *more), limit = sizeof(R) == 4 ? 1e-4 : 1e-10;
    INT info = -99, rank = -1, *integers = calloc(1 << 18, sizeof *integers);
    (void)more, (void)integers;
    for (int k = 0; k < 6; k++) {
        const R tiny = sizeof(R) == 4 ? 1e-36 : 1e-303, of_a = k == 2 ? tiny : 1, of_b = k == 3 ? tiny : 1;
        const INT lwork = k == 4 ? 2 * n : 1 << 18;
        CALL(_drawn)(a, m, n, ld, 17), CALL(_drawn)(b, m, sides, ld, 19);
        /* Two columns are the same. */
        if (k == 1)
            memcpy(a + ld, a, (size_t)m * sizeof *a);
        if (k == 5)
            b[n / 2] = NUMBER(NAN, 0);
        memcpy(x, b, right * sizeof *b);
        for (size_t i = 0; i < all; i++)
            of[i] = a[i] * of_a;
        for (size_t i = 0; i < right; i++)
            b[i] *= of_b;
        memset(integers, 0, (size_t)n * sizeof *integers);
#if COMPLEX
        if (way == BY_PIVOTING)
            GELSY(&m, &n, &sides, of, &ld, b, &ld, integers, &limit, &rank, work, &lwork, more, &info);
        else if (way == BY_DIVIDING)
            GELSD(&m, &n, &sides, of, &ld, b, &ld, values, &limit, &rank, work, &lwork, more, integers, &info);
        else
            GELSS(&m, &n, &sides, of, &ld, b, &ld, values, &limit, &rank, work, &lwork, more, &info);
#else
        if (way == BY_PIVOTING)
            GELSY(&m, &n, &sides, of, &ld, b, &ld, integers, &limit, &rank, work, &lwork, &info);
        else if (way == BY_DIVIDING)
            GELSD(&m, &n, &sides, of, &ld, b, &ld, values, &limit, &rank, work, &lwork, integers, &info);
        else
            GELSS(&m, &n, &sides, of, &ld, b, &ld, values, &limit, &rank, work, &lwork, &info);
#endif
        printf("gels%c %ld %ld\n", "sdy"[way], (long)info, (long)rank);
        if (info || k == 5)
            continue;
        double sum = 0, squares = 0;
        for (INT j = 0; j < n && way != BY_PIVOTING; j++) {
            values[j] /= of_a;
            if (j > 0 && !(values[j] <= values[j - 1]))
                failed("the order of singular values", j, 0);
            squares += (double)values[j] * (double)values[j];
            for (INT i = 0; i < m; i++)
                sum += creal(a[i + ld * j]) * creal(a[i + ld * j]) + cimag(a[i + ld * j]) * cimag(a[i + ld * j]);
        }
        if (way != BY_PIVOTING && !(fabs(sum - squares) <= sum * (sizeof(R) == 4 ? 1e-4 : 1e-12)))
            failed("the sum of squares of singular values", 0, 0);
        for (INT j = 0; j < sides; j++)
            for (INT i = 0; i < n; i++)
                b[i + ld * j] = b[i + ld * j] * of_a / of_b;
        if (k == 1) {
            /* The shortest solution has the same part of both columns: the sum of these parts is that of a matrix with one of them. */
            for (INT j = 0; j < sides; j++) {
                CALL(_near)("the parts of equal columns", &b[ld * j], ld, &b[1 + ld * j], ld, 1, 1, m);
                b[1 + ld * j] += b[ld * j];
            }
            memcpy(columns, a + ld, (all - (size_t)ld) * sizeof *a);
        } else
            memcpy(columns, a, all * sizeof *a);
        const INT width = k == 1 ? n - 1 : n, first = n - width;
        CALL(_factor)(columns, m, width, ld, tau);
        CALL(_apply)(columns, m, width, ld, tau, 1, x, sides);
        double rest = 0, left = 0;
        for (INT i = width; i < m; i++)
            left += creal(x[i]) * creal(x[i]) + cimag(x[i]) * cimag(x[i]);
        for (INT i = n; i < m; i++)
            rest += creal(b[i]) * creal(b[i]) + cimag(b[i]) * cimag(b[i]);
        /* LAPACK leaves it scaled. */
        if (way != BY_PIVOTING && rank == n && of_a == 1 && of_b == 1 && !(fabs(rest - left) <= left * (sizeof(R) == 4 ? 1e-4 : 1e-12)))
            failed("the residual", 0, 0);
        CALL(_by_r)(columns, width, ld, 0, x, sides);
        CALL(_near)("least squares by singular values", b + first, ld, x, ld, width, sides, m);
    }
    free(a), free(of), free(columns), free(b), free(x), free(tau), free(work), free(values), free(more), free(integers);
}

/* Inverses of triangles and their squares, exact; the other triangle stays as it is. */
static void CALL(_triangles)(INT n)
{
    const INT ld = n + 3;
    /* OpenBLAS 0.3.21's zlauum reads behind the last column, too. */
    T *a = CALL(_zeros)((size_t)ld * (size_t)(n + 4));
    INT info = -99;
    for (const char *uplo = "LU"; *uplo; uplo++) {
        const int lower = *uplo == 'L';
        for (const char *what = "NUM"; *what; what++) {
            for (INT j = 0; j < n; j++)
                for (INT i = 0; i < n; i++) {
                    T *at = &a[i + (size_t)ld * (size_t)j];
                    if (lower ? i < j : i > j)
                        CALL(_odd)(at, i + 3 * j);
                    else if (i == j && *what == 'U')
                        CALL(_odd)(at, i);
                    else
                        *at = lower ? CALL(_triangle)(n, i, j) : CALL(_triangle)(n, j, i);
                }
            if (*what == 'M')
                LAUUM(uplo, &n, a, &ld, &info);
            else
                TRTRI(uplo, what, &n, a, &ld, &info);
            long kept = CALL(_kept)(a, n, ld, *uplo);
            for (INT i = 0; i < n && *what == 'U'; i++) {
                kept += CALL(_still)(&a[i + (size_t)ld * (size_t)i], i);
                a[i + (size_t)ld * (size_t)i] = 0;
            }
            printf("triangle %c%c %ld %ld %016" PRIx64 "\n", *uplo, *what, (long)info, kept, CALL(_hash)(a, n, n, ld));
        }
        T *corner = lower ? &a[n - 1] : &a[(size_t)ld * (size_t)(n - 1)];
        a[n / 3 + (size_t)ld * (size_t)(n / 3)] = 0;
        TRTRI(uplo, "N", &n, a, &ld, &info);
        printf("trtri of a singular triangle %ld\n", (long)info);
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                a[i + (size_t)ld * (size_t)j] = i == j;
        /* Which elements are no numbers then depends on the products with zeros that the BLAS leaves out. */
        *corner = INFINITY;
        TRTRI(uplo, "N", &n, a, &ld, &info);
        printf("trtri of an infinite triangle %ld %d\n", (long)info, CALL(_finite)(a, n, ld) < (long)n * n);
        *corner = INFINITY;
        LAUUM(uplo, &n, a, &ld, &info);
        printf("lauum of an infinite triangle %ld %d\n", (long)info, CALL(_finite)(a, n, ld) < (long)n * n);
    }
    TRTRI("L", "N", &n, a, &(INT){n - 1}, &info);
    printf("trtri of too short columns %ld\n", (long)info);
    free(a);
}

#undef GELQF
#undef GELS
#undef GELSD
#undef GELSS
#undef GELSY
#undef GEQP3
#undef TRTRI
#undef LAUUM
#undef FORMROWS
#undef APPLYROWS
