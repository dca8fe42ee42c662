# Products, and LAPACK, which hides its BLAS calls: the report must name the lines.
n <- 512
a <- matrix(1, n, n)
for (k in 1:10) {
  b <- a %*% a # product
}
s <- diag(2, 500)
for (k in 1:20) {
  y <- eigen(s, symmetric = TRUE, only.values = TRUE)$values # solver
}
stopifnot(all(y == 2), all(b == n))
