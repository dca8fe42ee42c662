% Products, and LAPACK, which hides its BLAS calls: the report must name the lines.
n = 512;
a = ones (n);
for k = 1:10
  b = a * a; % product
end
s = full (2 * eye (1200));
for k = 1:20
  y = chol2inv (s); % solver
end
assert (all (diag (y) == 0.25) && all (b(:) == n));
