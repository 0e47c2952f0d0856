# The commands of the project. `make help` lists them; CONTRIBUTING.md says when to use which.

SHELL := /bin/bash -o pipefail
GO    ?= go
TOOL  := $(GO) tool -modfile=test/tools/go.mod

# Go compiles all packages anew for each configuration. So the suites have that of the released
# binary, and only test-unit has another: the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)

# lint-vet runs all analyzers. The few that go test runs would examine all dependencies once more.
TEST := test -vet=off -json

# A timeout is several times what its suite takes on two idle CPUs: at a load of 17, test-apiserver
# took more than 20 minutes.

# A suite runs through test/summary, which records its result for `make test`.
REPORTS := bin/reports
SUMMARY := $(GO) run ./test/summary
SUITE    = $(SUMMARY) -reports $(REPORTS) -name $@

.PHONY: build image chart manifests packages release publish diagrams help demo test test-real test-beside test-unit test-release test-chart test-e2e test-systemd test-critest test-leaks test-faults test-rollout test-cluster test-nri test-apiserver test-dns test-hostile test-load test-soak \
	lint lint-checks lint-format lint-modules lint-vet lint-platforms lint-staticcheck lint-complexity lint-commits lint-arch fuzz bench bench-dns clean

build: ## build bin/dnsconfigurer, a static binary
	$(GO) build -trimpath -ldflags='-s -w' -o bin/dnsconfigurer ./cmd/dnsconfigurer

# What is published, in bin/release. The version is that of the git tag, the times are those
# of the commit: the same commit gives the same bytes. REGISTRY is the one of image and chart, such as
# ghcr.io/OWNER; PLATFORMS limits the platforms.
RELEASE = $(GO) -C release run . $(if $(REGISTRY),-registry $(REGISTRY)) $(if $(PLATFORMS),-platforms $(PLATFORMS))

image: ## build the container image for amd64 and arm64: an OCI layout, and image.tar for `ctr images import`
	$(RELEASE) image

chart: ## build the Helm chart
	$(RELEASE) chart

manifests: ## render the chart for kubectl, with the digest of the image: install-*.yaml
	$(RELEASE) manifests

packages: ## build the deb and rpm packages of the shim for amd64 and arm64
	$(RELEASE) packages

release: ## build image, chart, manifests, packages, archives for each platform, SBOMs and checksums
	$(RELEASE) all

publish: ## push the image and the chart of `make release` to REGISTRY, and print the digest of the image
	@$(RELEASE) publish

# From the text files beside them. The rest of the build does not need D2, which is large.
diagrams: ## draw docs/diagrams
	@for text in docs/diagrams/*.d2; do $(GO) run oss.terrastruct.com/d2@v0.7.2 --pad 10 --layout elk $$text $${text%.d2}.svg || exit 1; done

help: ## list the commands
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: build ## show the product in two minutes
	@bash examples/demo.sh

# lint and test-unit measure no time, test-faults waits for the timeouts of C libraries, two minutes of a CPU in
# its three and a half, and the soak takes ten minutes and little of the machine: they run together. The
# attacks of test-hostile and the loads of test-load have fixed rates, so each runs alone. The other suites
# measure no time, and wait for servers and kubelets more than they work: they run two at a time.
EARLY  := test-unit test-soak lint test-faults test-hostile test-load
BESIDE := test-leaks test-release test-dns test-chart test-nri
REAL   := test-cluster test-apiserver test-e2e
test: ## run all suites; a failure does not stop the others, a skip on root Linux is a failure
	@rm -rf $(REPORTS)
	@$(MAKE) --no-print-directory -k -j3 -Otarget test-unit test-soak lint test-faults; \
	$(MAKE) --no-print-directory -k test-hostile test-load; \
	$(MAKE) --no-print-directory -k -j2 -Otarget test-beside test-real; \
	$(SUMMARY) -total $(REPORTS) $(EARLY) $(REAL) $(BESIDE); status=$$?; \
	echo "all suites took $$((SECONDS / 60)) minutes"; exit $$status

test-real: ## run the longest suites with real components, one after another because their builds need the machine
	+@$(call each,$(REAL))

test-beside: ## run the suites that can run beside test-real
	+@$(call each,$(BESIDE))

# The command that makes targets one after another, also after a failure. make does not see that it
# runs make, for which it needs a plus sign.
each = failed=; for suite in $(1); do $(MAKE) --no-print-directory $$suite || failed="$$failed $$suite"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# The race detector needs a C compiler; so do the C programs of test/libc. All tests of the packages
# that are left out run in their own suites: with the race detector, these would build for nothing.
# On two CPUs go test runs the tests of two packages at a time, and many tests wait: 880 s of CPU time
# took 707 s. The 600 commands of cmd took 1,170 s beside the other early suites.
test-unit: ## run the tests of the main module with the race detector
	@$(SUITE) env CGO_ENABLED=1 $(GO) $(TEST) -race -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout 40m -skip '^(TestNRI|TestRandom(Names|Packets)|TestFaults|TestRollout|TestHostile|TestUnreadReplies|TestLegitimateLoad|TestCritest)$$' \
	  $$($(GO) list ./... | grep -vE '/test/(apiserver|e2e|systemd)$$')

# Without the race detector, with which test-unit runs a fifth of the lifecycles, and stacks are larger.
test-leaks: ## measure what 100,000 pod lifecycles leave in the shim, and the stacks of queries that wait
	@$(SUITE) -v $(GO) $(TEST) -timeout 20m -run '^(TestShim_Leaks|TestSlots_Stack)$$' ./pkg/cri ./pkg/dnsserver

# FAULTS=-nodelocal also runs the faults with NodeLocal DNSCache, for the table in docs/dns.md.
test-faults: ## look up names with glibc and musl, 2,000 a second, during each fault of a node cache and its servers
	@$(SUITE) -v $(GO) $(TEST) -timeout 20m -count 1 -run '^TestFaults$$' ./test/node -args $(FAULTS)

# Not a part of test: it takes four minutes and much of two CPUs.
test-rollout: ## replace 20 node caches one after another during a million lookups
	@$(SUITE) -v $(GO) $(TEST) -timeout 20m -count 1 -run '^TestRollout$$' ./test/node

# The kubelet's code is large: it has its own module, and its first build takes minutes.
test-cluster: ## compare the policy engine with the kubelet's own code
	@$(SUITE) -v $(GO) -C test/cluster $(TEST) -timeout 60m ./...

test-nri: ## run pods at containerd with agent and relay, while these are killed and stopped
	@$(SUITE) -v $(GO) $(TEST) -timeout 40m -run '^TestNRI$$' ./test/node

# After test-cluster, which has built much of the API server.
test-apiserver: ## test policies, webhook and cluster DNS on a real etcd and kube-apiserver, also while those fail
	@$(SUITE) -v sh -c "$(GO) $(TEST) -timeout 40m ./test/apiserver; first=\$$?; \
	$(GO) -C test/bench $(TEST) -timeout 40m ./fault && exit \$$first"

# After test-load, which has built CoreDNS.
test-dns: ## compare the cluster DNS server with CoreDNS and the specification
	@$(SUITE) -v $(GO) -C test/bench $(TEST) -timeout 40m $$($(GO) -C test/bench list ./... | grep -v /fault$$)

test-release: ## build image, packages and archives twice, compare and check them
	@$(SUITE) -v $(GO) -C release $(TEST) -timeout 60m ./...

# helm is built here: about two minutes the first time. kube-apiserver is built by then: test-apiserver
# began before.
test-chart: ## render and check the Helm chart with helm, and install it on a real API server
	@$(SUITE) -v $(GO) -C test/chart $(TEST) -timeout 60m ./...

# After test-cluster and test-apiserver, which have built most of its programs. Ten minutes on two
# cores; the limit is for a machine that is several times slower.
test-e2e: ## run a cluster of one node with all components installed from image, chart and unit, and look up names in its pods
	@$(SUITE) -v $(GO) $(TEST) -timeout 60m -count 1 ./test/e2e

# It downloads a Debian with debootstrap, 240 MB, and a machine may have no mirror: a skip would
# be a failure, and a failure would say nothing about the product. So it is not part of test. The
# packages are built from a clone without linked worktrees.
test-systemd: ## boot a Debian with systemd, containerd and a kubelet; install, upgrade, kill, bypass and remove the package of the shim there
	@$(SUITE) -v $(GO) $(TEST) -timeout 20m -count 1 ./test/systemd

# cri-tools is built with its own go.sum.
test-critest: CRITOOLS = sigs.k8s.io/cri-tools@v1.36.0
test-critest: ## critest, the conformance test of container runtimes, at containerd alone, through the shim, and with the agent
	@mkdir -p bin
	cd "$$($(GO) mod download -json $(CRITOOLS) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" && \
		$(GO) test -c -o "$(CURDIR)/bin/critest" ./cmd/critest
	@CRITEST="$(CURDIR)/bin/critest" $(SUITE) -v $(GO) $(TEST) -timeout 40m -count 1 -run '^TestCritest$$' ./test/node

test-hostile: ## attack both DNS servers in 47 ways beside a well-behaved client, eight minutes
	@$(SUITE) -v $(GO) $(TEST) -timeout 15m -count 1 -run '^(TestHostile|TestUnreadReplies)$$' ./test/hostile

# CoreDNS is built here: a minute the first time.
test-load: ## send legitimate load to both DNS servers and to CoreDNS, four minutes
	@$(SUITE) -v $(GO) $(TEST) -timeout 15m -count 1 -run '^TestLegitimateLoad$$' ./test/hostile

# At 2,000 queries a second: it leaves most of the machine to others.
SOAK ?= 10m
test-soak: ## send random names for SOAK (10m), signals and a million random packets to the cluster DNS server
	@$(SUITE) -v $(GO) $(TEST) -timeout 30m -run '^TestRandom' ./test/hostile -args -duration $(SOAK) -packets 1000000

# The jobserver of make is lost on the way through test/summary, about which make would warn.
lint: ## check format, modules, vet, other platforms, staticcheck, complexity, commit messages and test/arch
	@$(SUITE) env MAKEFLAGS= $(MAKE) --no-print-directory -k lint-checks

lint-checks: lint-format lint-modules lint-vet lint-platforms lint-staticcheck lint-complexity lint-commits lint-arch

lint-format:
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -s -l); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }

lint-modules:
	$(GO) mod tidy -diff

lint-vet:
	$(GO) vet ./...
	$(GO) -C test/cluster vet ./...
	$(GO) -C test/bench vet ./...
	$(GO) -C release vet ./...
	$(GO) -C test/chart vet ./...

# The commands that need no node run on these, too. go vet runs on the packages with files of other platforms.
lint-platforms:
	$(GO) run ./test/platforms darwin windows
	GOOS=darwin $(GO) vet $$(git ls-files '*other.go' '*other_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')

lint-staticcheck:
	$(TOOL) staticcheck ./...

# Cognitive complexity (sonarsource.com, G. Ann Campbell): what a reader keeps in mind.
lint-complexity:
	$(TOOL) gocognit -test=false -over 15 api cmd deploy internal pkg release test

lint-commits:
	$(GO) run ./test/commits

lint-arch:
	@$(GO) $(TEST) ./test/arch

# The seeds of the targets run in test-unit, too.
FUZZTIME ?= 30s
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$pkg || exit 1; \
	  done; \
	done

# docs/benchmarks.md keeps the last tables, those of bench-dns by itself. The parts with containers and processes
# run as root on Linux.
BENCH_COUNT ?= 10
bench: build ## measure the engine, the shim and the DNS servers beside their peers in one run
	cd test/cluster && $(GO) test -run '^$$' -bench . -benchtime 200ms -count $(BENCH_COUNT) . | tee bench.txt
	cd test/cluster && $(GO) tool -modfile=../tools/go.mod benchstat -col /engine bench.txt
	$(GO) test -run '^$$' -bench . -benchtime 500ms -count $(BENCH_COUNT) -timeout 60m ./test/node | tee bench.txt
	$(TOOL) benchstat -filter .name:Instant -col /path bench.txt
	$(TOOL) benchstat -filter .name:Memory bench.txt
	$(MAKE) bench-dns

# About 25 minutes. BENCH_DNS='-only misses' prints one table.
bench-dns: ## measure the DNS servers beside their peers, and write tables and charts of docs/benchmarks.md
	cd test/bench && $(GO) run ./cmd/measure -docs ../../docs $(BENCH_DNS)

clean: ## remove what the commands have built
	rm -rf bin bench.txt test/cluster/bench.txt
