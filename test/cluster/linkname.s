// Empty: with an assembly file, the compiler accepts a function without a body (go:linkname).
