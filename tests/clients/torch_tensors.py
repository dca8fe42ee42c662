"""PyTorch's CPU tensors on whole numbers: products, a network of two layers forward and backward, a convolution."""

import torch

torch.set_num_threads(2)
n = 192


def matrix(rows, columns, p, q, m, kind=torch.float64):
    i, j = torch.arange(rows)[:, None], torch.arange(columns)[None, :]
    return ((p * i + q * j + i * j) % m - m // 2).to(kind)


def exact(name, x):
    x = x.detach()
    parts = [x.real, x.imag] if x.is_complex() else [x]
    weight = (torch.arange(x.numel()) % 17).reshape(x.shape)
    print(name, *(f"{part.double().sum():.0f} {(part.double() * weight).sum():.0f}" for part in parts))


for kind in [torch.float32, torch.float64, torch.complex64, torch.complex128]:
    a, b = matrix(n, n, 3, 5, 7, kind), matrix(n, n, 2, 7, 5, kind)
    c = a @ b
    c[3] += 1
    exact(f"mm {kind}", c @ a.T)
    exact(f"mv {kind}", torch.mv(c, a[0]))
a, b = matrix(n, n, 3, 5, 7), matrix(n, n, 2, 7, 5)
exact("addmm", torch.addmm(b, a, b, beta=2, alpha=-1))
exact("bmm", torch.bmm(a.reshape(3, 64, n), b.reshape(3, n, 64)))
exact("dot", torch.dot(a[1], b[2]))

# No activation that rounds, no division: gradients are whole numbers.
first, second = torch.nn.Linear(n, 256).double(), torch.nn.Linear(256, 10).double()
with torch.no_grad():
    first.weight.copy_(matrix(256, n, 1, 2, 3)), first.bias.copy_(matrix(1, 256, 1, 1, 5)[0])
    second.weight.copy_(matrix(10, 256, 2, 1, 3)), second.bias.fill_(1)
for step in range(2):
    for layer in [first, second]:
        layer.zero_grad()
    out = second(torch.relu(first(matrix(64, n, step + 1, 3, 5))))
    (out * matrix(64, 10, 1, 1, 3)).sum().backward()
    exact("forward", out)
    exact("backward", first.weight.grad)
    with torch.no_grad():
        for layer in [first, second]:
            layer.weight -= torch.sign(layer.weight.grad)
exact("backward", second.weight.grad)

images = matrix(4, 3 * 32 * 32, 3, 1, 5).reshape(4, 3, 32, 32).requires_grad_()
kernel = matrix(20, 3 * 25, 1, 2, 3).reshape(20, 3, 5, 5).requires_grad_()
out = torch.nn.functional.conv2d(images, kernel, padding=2)
out.sum().backward()
exact("conv2d", out)
exact("conv2d backward", kernel.grad)

s = a + a.T + 900 * torch.eye(n)
print("solve", f"{torch.linalg.solve(s, b).abs().sum():.8g}")
print("cholesky", f"{torch.linalg.cholesky(s).abs().sum():.8g}")
