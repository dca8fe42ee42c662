# Products, and LAPACK, which hides its BLAS calls: the report must name the lines.
n <- 512
a <- matrix(1, n, n)
for (k in 1:10) {
  b <- a %*% a # product
}
s <- diag(2, 1200)
for (k in 1:20) {
  y <- chol2inv(s) # solver
}
stopifnot(all(diag(y) == 0.25), all(b == n))
