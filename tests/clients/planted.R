# Products, and LAPACK, which hides its BLAS calls: the report must name the lines.
n <- 512
a <- matrix(1, n, n)
for (k in 1:10) {
  b <- a %*% a # product
}
s <- diag(2, 1200)
for (k in 1:20) {
  y <- solve(s, rep(2, 1200)) # solver
}
stopifnot(all(y == 1), all(b == n))
