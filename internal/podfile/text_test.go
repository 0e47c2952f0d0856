// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const kubeletText = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"

// composeText returns the text that compose writes last.
func composeText(dns, original, old string) (text []byte, err error) {
	texts, err := compose([]byte(dns), []byte(original), []byte(old), false)
	if err == nil {
		text = texts[len(texts)-1]
	}
	return text, err
}

// TestCompose checks sizes on both sides of the limits.
func TestCompose(t *testing.T) {
	for name, c := range map[string]struct {
		dns, original string
		size          int // 0: too large
		before        bool
	}{
		"usual":                    {"nameserver 10.96.0.10\n", kubeletText, 512, true},
		"original without newline": {"nameserver 10.96.0.10\n", strings.TrimSuffix(kubeletText, "\n"), 512, true},
		"no original":              {"nameserver 10.96.0.10\n", "", 512, false},
		"original with a NUL":      {"nameserver 10.96.0.10\n", "search a\x00b\n", 512, false},
		"original not ASCII":       {"nameserver 10.96.0.10\n", "search b\u00fccher.example\n", 512, false},
		"original does not fit": {"search " + strings.Repeat("a", 2050) + "\n",
			"search " + strings.Repeat("b", 2050) + "\n", 2560, false},
		"does not shrink":            {"nameserver 10.96.0.10\n", strings.Repeat("#\n", 1024), 2048, false},
		"a full step":                {"nameserver 10.96.0.10\n", strings.Repeat("a", 194) + "\n", 512, true},
		"one byte more than a step":  {"nameserver 10.96.0.10\n", strings.Repeat("a", 195) + "\n", 1024, true},
		"a full page":                {strings.Repeat("a", MaxSize-digestLine-1) + "\n", "", MaxSize, false},
		"one byte more than a page":  {strings.Repeat("a", MaxSize-digestLine) + "\n", "", 0, false},
		"contains a digest of a pod": {digestPrefix, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := composeText(c.dns, c.original, c.original)
			if c.size == 0 {
				if err == nil {
					t.Errorf("got %q, want an error", text)
				}
				return
			}
			if err != nil || len(text) != c.size || OriginOf(text) != Written {
				t.Fatalf("%d bytes, origin %v, %v: want %d\n%s", len(text), OriginOf(text), err, c.size, text)
			}
			if got := strings.Contains(string(text), "\n"+originalPrefix); got != c.before {
				t.Errorf("has the original: %t, want %t\n%s", got, c.before, text)
			}
		})
	}
}

// TestOriginOf_Changed changes each byte of a text.
func TestOriginOf_Changed(t *testing.T) {
	text := must.Get(composeText("nameserver 10.96.0.10\n", kubeletText, ""))(t)
	for i := range text {
		changed := append([]byte(nil), text...)
		changed[i] ^= 1
		if OriginOf(changed) == Written {
			t.Errorf("byte %d changed, and the origin is still %v", i, Written)
		}
	}
	for n := range text {
		if OriginOf(text[:n]) == Written {
			t.Errorf("cut to %d bytes, and the origin is still %v", n, Written)
		}
	}
	for _, more := range []string{"\n", "nameserver 203.0.113.66\n"} {
		if got := OriginOf(append(text[:len(text):len(text)], more...)); got != Changed {
			t.Errorf("with %q: origin %v, want %v", more, got, Changed)
		}
	}
}

func FuzzCompose(f *testing.F) {
	f.Add("nameserver 10.96.0.10\nsearch a b\noptions ndots:5\n", kubeletText)
	f.Add("", "\x00\n# dnsconfigurer: sha256 ")
	f.Add("nameserver 10.96.0.10\n", "\nsearch a\n\n")
	f.Add("search "+strings.Repeat("a", 2048)+"\n", strings.Repeat("#\n", 2048))
	f.Fuzz(func(t *testing.T, dns, original string) {
		OriginOf([]byte(original)) // does not crash
		if dns != "" && !strings.HasSuffix(dns, "\n") {
			dns += "\n"
		}
		text, err := composeText(dns, original, original)
		if err != nil {
			return
		}
		if len(text)%sizeStep != 0 || len(text) > MaxSize || len(text) < len(original) || OriginOf(text) != Written {
			t.Fatalf("%q and %q give %q", dns, original, text)
		}
		checkLines(t, dns, original, string(text))
		if got, ok := Original(text); ok && string(got) != original {
			t.Errorf("original %q, want %q", got, original)
		}
		if diff := cmp.Diff(resolvconf.Parse(dns).Config(), resolvconf.Parse(string(text)).Config()); diff != "" {
			t.Errorf("the kubelet's reader (-DNS +file):\n%s", diff)
		}
		if strings.Contains(dns, "\x00") {
			return // musl ignores the line after it
		}
		for name, read := range map[string]func(string) resolvconf.Resolver{"glibc": resolvconf.Glibc, "musl": resolvconf.Musl} {
			want, got := read(dns), read(string(text))
			want.Remarks, got.Remarks = nil, nil
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
				t.Errorf("%s (-DNS +file):\n%s", name, diff)
			}
		}
	})
}

// checkLines checks that text has the lines of dns byte for byte, and no blank at the end of a line
// that dns and original do not have: BusyBox takes the rest of a nameserver line for the address.
func checkLines(t *testing.T, dns, original, text string) {
	t.Helper()
	lines := map[string]int{}
	for line := range strings.Lines(dns) {
		if !strings.ContainsRune("#;\n", rune(line[0])) {
			lines[line]++
		}
	}
	blanks := strings.NewReplacer(" \n", "", "\t\n", "", "\r\n", "")
	hasBlanks := blanks.Replace(dns+original+"\n") != dns+original+"\n"
	for line := range strings.Lines(text) {
		lines[line]--
		if !hasBlanks && blanks.Replace(line) != line {
			t.Errorf("%q and %q give %q, which ends with a blank", dns, original, line)
		}
	}
	for line, missing := range lines {
		if missing > 0 {
			t.Errorf("%q is missing in %q", line, text)
		}
	}
}

func FuzzRestore(f *testing.F) {
	f.Add("nameserver 10.96.0.10\nsearch a b\noptions ndots:5\n", kubeletText)
	f.Add("", "search a\n# before: b")
	f.Add("nameserver 10.96.0.10\n", "# dnsconfigurer: restored\n")
	f.Fuzz(func(t *testing.T, dns, original string) {
		if dns != "" && !strings.HasSuffix(dns, "\n") {
			dns += "\n"
		}
		written, err := composeText(dns, original, original)
		if err != nil {
			return
		}
		recorded, ok := Original(written)
		if !ok {
			return
		}
		again, err := composeText("nameserver 192.0.2.1\n", string(recorded), string(written))
		if err != nil || len(again) < len(written) {
			t.Fatalf("%q gives %q, %v", written, again, err)
		}
		if recorded, ok = Original(again); !ok || string(recorded) != original {
			t.Fatalf("original %q, %t, want %q", recorded, ok, original)
		}
		texts, err := compose(recorded, recorded, again, true)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		restored := texts[len(texts)-1]
		if OriginOf(restored) != Restored || len(restored) < len(again) {
			t.Fatalf("%q gives %q", again, restored)
		}
		if diff := cmp.Diff(resolvconf.Parse(original).Config(), resolvconf.Parse(string(restored)).Config()); diff != "" {
			t.Errorf("the kubelet's reader (-original +restored):\n%s", diff)
		}
	})
}
