# The commands of the project; CONTRIBUTING.md says when to use which.

SHELL := /bin/bash -o pipefail
GO    ?= go
TOOL  := $(GO) tool -modfile=test/tools/go.mod

.PHONY: build demo test test-real test-unit test-leaks test-faults test-cluster test-kubelet test-apiserver test-dns test-soak lint fuzz bench bench-dns clean

# gRPC's traces would bring templates, and with them the linker keeps every method of
# every type: 4.6 MB.
build: ## the binary at bin/dnsconfigurer, static
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -ldflags='-s -w' -o bin/dnsconfigurer ./cmd/dnsconfigurer

demo: build ## the two-minute tour
	@bash examples/demo.sh

# The soak takes ten minutes and little of the machine: the others run beside it, save for
# the faults, which are about time.
test: lint test-unit test-faults ## everything; a skip on root Linux is a failure
	@$(MAKE) --no-print-directory -j2 -Otarget test-soak test-real

test-real: ## what has real components, one after another: their builds need the machine
	@$(MAKE) --no-print-directory test-leaks
	@$(MAKE) --no-print-directory test-cluster
	@$(MAKE) --no-print-directory test-kubelet
	@$(MAKE) --no-print-directory test-apiserver
	@$(MAKE) --no-print-directory test-dns

# The race detector needs a C compiler; so do the C programs of test/libc.
test-unit: ## the fast part
	$(GO) test -race -timeout 20m -skip '^(TestKubelet$$|TestAPIServer|TestRandom(Names|Packets)$$|TestFaults$$)' -json ./... | $(GO) run ./test/summary

# Too many for the race detector, with which test-unit runs a fifth of them.
test-leaks: ## what 100,000 pod lifecycles leave behind in the shim
	$(GO) test -timeout 20m -run '^TestLifecyclesLeaveNothing$$' -json ./pkg/cri | $(GO) run ./test/summary -v

# Two minutes, mostly of waiting. The delays that it tells are those of the machine, too.
test-faults: ## a thousand lookups of glibc and musl through each fault of a node cache and its servers
	$(GO) test -timeout 10m -count 1 -run '^TestFaults$$' -json ./test/node | $(GO) run ./test/summary -v

# The kubelet's code is large: its module is apart, and its first build takes minutes.
test-cluster: ## the policy engine beside the kubelet's own code
	cd test/cluster && CGO_ENABLED=0 $(GO) test -timeout 60m -json ./... | (cd ../.. && $(GO) run ./test/summary -v)

# After test-cluster, which has built most of the kubelet.
test-kubelet: ## a kubelet with static pods, directly at containerd and through the shim
	$(GO) test -timeout 20m -run '^TestKubelet$$' -json ./test/node | $(GO) run ./test/summary -v

# After test-cluster, which has built much of the API server. It has a module of its own.
test-apiserver: ## admission policies on a real etcd and kube-apiserver, and the cluster DNS server when those die, hang and come back
	$(GO) test -timeout 20m -run '^TestAPIServer' -json ./test/apiserver | $(GO) run ./test/summary -v
	cd test/bench && CGO_ENABLED=0 $(GO) test -timeout 20m -json ./fault | (cd ../.. && $(GO) run ./test/summary -v)

# CoreDNS is built here: about a minute and a half the first time.
test-dns: ## the cluster DNS server, CoreDNS and the specification: the same answers
	cd test/bench && CGO_ENABLED=0 $(GO) test -timeout 20m -json $$($(GO) list ./... | grep -v /fault$$) | (cd ../.. && $(GO) run ./test/summary -v)

# At 2,000 queries a second: it leaves most of the machine to others.
SOAK ?= 10m
test-soak: ## ten minutes of random names and a million random packets against the cluster DNS server
	$(GO) test -timeout 30m -json ./test/soak -args -duration $(SOAK) -packets 1000000 | $(GO) run ./test/summary -v

lint: ## vet, formatter, staticcheck, and the public interface of pkg/policy
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -s -l); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	cd test/cluster && CGO_ENABLED=0 $(GO) vet ./...
	cd test/bench && CGO_ENABLED=0 $(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) test ./test/arch

# Every fuzz target for FUZZTIME; their seeds run in test-unit too.
FUZZTIME ?= 30s
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# Side by side with the peers in one run; docs/benchmarks.md keeps the last table.
# What needs containers and processes of its own runs as root on Linux.
BENCH_COUNT ?= 10
bench: build ## parse and decide beside the kubelet's GetPodDNS, calls with and without the shim, its memory, bench-dns
	cd test/cluster && CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchtime 200ms -count $(BENCH_COUNT) . | tee bench.txt
	cd test/cluster && $(GO) tool -modfile=../tools/go.mod benchstat -col /engine bench.txt
	$(GO) test -run '^$$' -bench . -benchtime 500ms -count $(BENCH_COUNT) -timeout 60m ./test/node | tee bench.txt
	$(TOOL) benchstat -filter '.name:(Containerd OR Instant)' -col /path bench.txt
	$(TOOL) benchstat -filter .name:Memory bench.txt
	$(MAKE) bench-dns

# About ten minutes. BENCH_DNS='-runs 1 -seconds 2' is a quick look.
bench-dns: ## what an answer costs, beside CoreDNS, NSD, Knot, unbound and dnsmasq
	cd test/bench && $(GO) run ./cmd/measure $(BENCH_DNS)

clean:
	rm -rf bin bench.txt test/cluster/bench.txt
