// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
)

// ruleset returns the rules in the namespace, as nft prints them, without blank lines.
func ruleset(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	return string(out)
}

// enter reports whether the test runs in a network namespace of its own, as netns.Enter does.
// It installs nft before: from the namespace, no archive is reachable.
func enter(t *testing.T) bool {
	t.Helper()
	debian.Install(t, "nft", "nftables")
	return netns.Enter(t)
}

func TestInstall_Rules(t *testing.T) {
	if !enter(t) {
		return
	}
	addrs := []netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("[fd00:10::a]:1053")}
	first, err := Install(addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Remove()
	const want = `	flags owner

	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		ip daddr 10.96.0.10 udp dport 53 notrack
		ip daddr 10.96.0.10 tcp dport 53 notrack
		ip6 daddr fd00:10::a udp dport 1053 notrack
		ip6 daddr fd00:10::a tcp dport 1053 notrack
	}

	chain output {
		type filter hook output priority raw; policy accept;
		ip daddr 10.96.0.10 udp dport 53 notrack
		ip saddr 10.96.0.10 udp sport 53 notrack
		ip daddr 10.96.0.10 tcp dport 53 notrack
		ip saddr 10.96.0.10 tcp sport 53 notrack
		ip6 daddr fd00:10::a udp dport 1053 notrack
		ip6 saddr fd00:10::a udp sport 1053 notrack
		ip6 daddr fd00:10::a tcp dport 1053 notrack
		ip6 saddr fd00:10::a tcp sport 1053 notrack
	}
}
`
	_, got, _ := strings.Cut(ruleset(t), "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	// Each instance has a table, which other processes cannot remove.
	second, err := Install(addrs[:1])
	if err != nil {
		t.Fatal(err)
	}
	netns.Run(t, "nft flush ruleset")
	if out, err := exec.Command("nft", "delete", "table", "inet", first.table).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Operation not permitted") {
		t.Errorf("nft delete: %v\n%s", err, out)
	}
	if n := strings.Count(ruleset(t), "table inet dnsconfigurer-"); n != 2 {
		t.Errorf("%d tables, want 2", n)
	}
	second.Remove()
	if got := ruleset(t); !strings.Contains(got, first.table) || strings.Contains(got, second.table) {
		t.Errorf("want %s alone:\n%s", first.table, got)
	}
	first.Remove()
	if got := ruleset(t); got != "" {
		t.Errorf("rules are left:\n%s", got)
	}
}

func TestWithHint(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:      "operation not permitted: add CAP_NET_ADMIN",
		unix.EOPNOTSUPP: "operation not supported: want Linux 5.12 or later with nf_tables",
		unix.ENOBUFS:    "no buffer space available",
	} {
		if got := withHint(err).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestInstall_Crash: the rules end with the process, without its doing.
func TestInstall_Crash(t *testing.T) {
	if !enter(t) {
		return
	}
	const crash = "DNSCONFIGURER_TEST_CRASH"
	if os.Getenv(crash) != "" {
		if _, err := Install([]netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:53")}); err != nil {
			t.Fatal(err)
		}
		fmt.Print(ruleset(t))
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crash+"=1")
	out, err := cmd.Output()
	if err == nil || err.Error() != "signal: killed" || !strings.Contains(string(out), "ip daddr 10.96.0.10 udp dport 53 notrack") {
		t.Errorf("%v, rules before the crash:\n%s", err, out)
	}
	got := ruleset(t)
	for deadline := time.Now().Add(time.Minute); got != "" && time.Now().Before(deadline); got = ruleset(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if got != "" {
		t.Errorf("rules are left:\n%s", got)
	}
}
