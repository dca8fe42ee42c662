% Products, and LAPACK, which hides its BLAS calls: the report must name the lines.
n = 512;
a = ones (n);
for k = 1:10
  b = a * a; % product
end
s = full (2 * eye (500));
for k = 1:20
  y = eig (s); % solver
end
assert (all (y == 2) && all (b(:) == n));
