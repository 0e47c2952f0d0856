// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"math/rand/v2"
	"strings"
)

// oneRule returns texts that each test one rule.
func oneRule() []string {
	list := []string{
		"", "\n", "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
		// Lines, white space, comments.
		" nameserver 10.0.0.1\n", "nameserver\t10.0.0.1\n", "nameserver\v10.0.0.1\n", "nameserver\r10.0.0.1\n", "Nameserver 10.0.0.1\n",
		"nameserver 10.0.0.1", "search a b", "search", "nameserver", "options ndots:3", "domain", "\ufeffnameserver 10.0.0.1\n",
		"nameserver 10.0.0.1\r\nsearch a b\r\noptions ndots:3 rotate\r\n", "nameserver 10.0.0.1\rsearch a\r", "nameserver ::1\r\n",
		"nameserver fe80::1%lo\r\n", "search a\r\n", "search \r\n", "search\r\n", "domain a\r\n",
		"options ndots:3\r\n", "options timeout:\r\n",
		"#nameserver 10.0.0.1\n", ";nameserver 10.0.0.1\n", "# search a\n", " # c\n",
		"search a # b ; c\n", "options # ndots:3\n", "options ;ndots:3\n",
		"nameserver 10.0.0.1 # c\n", "nameserver 10.0.0.1#c\n", "nameserver 10.0.0.1;\n", "domain a # b\n",
		// NUL.
		"nameserver 10.0.0.1\x00\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n", "\x00\nsearch a\n",
		"search a\n\x00", "nameserver 10.0.0.1\x00x",
		"search a\x00b\nsearch c", "options\x00 ndots:3\noptions ndots:4\n", "# \x00\nsearch a\n",
		"search a\x00\n\x00\nsearch b\nsearch c\n",
		"x\x00\n" + strings.Repeat("y", 600) + "\nsearch a\n",
		// Addresses.
		"nameserver localhost\n", "nameserver 10.0.0.1,10.0.0.2\n", "nameserver 10.0.0.1 10.0.0.2\n",
		"nameserver 10.0.0.1:53\n", "nameserver [::1]\n",
		"nameserver 0.0.0.0\nnameserver ::\nnameserver 255.255.255.255\n", "nameserver ::ffff:10.0.0.1\n", "nameserver ::ffff:010.0.0.1\n",
		"nameserver 1.2.3.4.5\n", "nameserver 1.2.3.\n", "nameserver .1.2.3\n", "nameserver 1..2\n",
		"nameserver +1.2.3.4\n", "nameserver -1\n",
		// Zones.
		"nameserver fe80::1%lo\n", "nameserver fe80::1%1\n", "nameserver fe80::1%0\n",
		"nameserver fe80::1%\n", "nameserver fe80::1%77\n", "nameserver fe80::1%007\n",
		"nameserver fd00::1%lo\n", "nameserver fd00::1%1\n", "nameserver fd00::1%1x\n",
		"nameserver fd00::1%4294967295\n", "nameserver fd00::1%4294967296\n",
		"nameserver ff02::1%lo\n", "nameserver ff12::1%lo\n", "nameserver ff05::1%lo\n",
		"nameserver febf::1%lo\n", "nameserver fec0::1%lo\n",
		"nameserver ::ffff:169.254.0.1%lo\n", "nameserver 10.0.0.1%lo\n",
		"nameserver fe80::1%18446744073709551616\n", "nameserver fe80::1%/\n",
		// Servers: 3, 4, one of them a name, twice.
		"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n",
		"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver ::3\nnameserver 10.0.0.4\n",
		"nameserver 10.0.0.1\nnameserver a\nnameserver 10.0.0.3\nnameserver 10.0.0.4\nnameserver b\n",
		"nameserver 10.0.0.1\nnameserver 10.0.0.1\n",
		// Search.
		"search a b\nsearch c\n", "search a\nsearch\n", "search a\nsearch \n", "search a\ndomain b\n",
		"domain a\nsearch b c\n", "domain a b\n", "domain\ta\n",
		"search .\n", "search . a\n", "search a. b..\n", "search a\tb\vc\n",
		"search " + strings.Repeat("a ", 40) + "\n", "search a\u00a0b \u3000\n",
		"search " + strings.Repeat("a", 300) + " b\n", "search 1 2 3 4 5 6 7 8 9\n", "search \xff\xfe\n",
		// Other.
		"sortlist 10.0.0.0/255.0.0.0\n", "sortlist 10.0.0.0\r\n", "sortlist 10.0.0.0/255.0.0.0\r\n",
		"sortlist 10.0.0.0/8/8\n", "sortlist x/8\n", "sortlist x /8\n",
		"sortlist 10.0.0.0&255.0.0.0 11.0.0.0;x\xff\n", "sortlist 10.0.0.0\vx\n", "sortlist \u00e4\n",
		"sortlist x\n", "sortlist ;/\n", "sortlist 10.0.0.0/\n", "sortlist 10.0.0.0/;/\n", "sortlist \x00/\n",
		"nameserver=10.0.0.1\n", "option ndots:2\n", "searcha b\n", "optionsndots:3\n", "lookup file bind\n", "family inet4\n",
	}
	for _, s := range []string{"127.1", "127.0.1", "0x7f.1", "0X7F000001", "0177.0.0.1", "2130706433",
		"4294967295", "4294967296", "1.16777215", "1.16777216",
		"1.2.65535", "1.2.65536", "256.1", "1.2.3.256", "08.1.1.1", "0x", "0x.1", "0xg",
		"00000000000000001.1", "0b1.1", "1_0.1", "0o7.1", "1.2.3.4x",
		"1::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9", ":1::", "1:::2", "::1:", "12345::", "::g",
		"::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:1.2.3.4", "::1.2.3",
		"::1.2.3.4.5", "::1.2.3.4:5", "::01.2.3.4", "::00001", "FE80::A"} {
		list = append(list, "nameserver "+s+"\n")
	}
	for _, s := range []string{"0", "1", "4", "5", "6", "10", "11", "15", "16", "30", "31", "60",
		"61", "-1", "-2", "-16", "+3", "", "x", "3x", " 3", "\t3", "\v3", "\r3", "03", "0x3",
		"2147483647", "2147483648", "4294967295", "4294967297", "-4294967295", "9223372036854775807",
		"99999999999999999999", "-99999999999999999999", ".5", "1.5", "--1", "+-1"} {
		for _, key := range []string{"ndots:", "timeout:", "attempts:"} {
			list = append(list, "options "+key+s+"\n", "options "+key+"2 "+key+s, "options a "+key+s+" rotate\n")
		}
	}
	for _, s := range []string{"rotate", "rotated", "rotat", "ROTATE", "edns0", "edns0:1",
		"single-request", "single-request-reopen", "single-requests", "no-tld-query", "no_tld_query",
		"no-reload", "use-vc", "trust-ad", "no-aaaa", "inet6", "no-check-names", "debug", "xndots:3",
		"ndots=3", "ndots:x,ndots:3", "ndots:3,attempts:4", "rotate edns0 trust-ad",
		"ndots:3\noptions timeout:4\noptions ndots:2", "NDOTS:3", "ndots: rotate", "ndots:\xff3", "strict-error"} {
		list = append(list, "options "+s+"\n")
	}
	// What glibc's public struct can hold: six domains, 256 bytes, and 56.
	for _, n := range []int{54, 55, 56, 57, 58, 254, 255, 256, 257} {
		for _, m := range []int{-3, -2, -1, 0, 1} {
			second := strings.Repeat("b", max(1, 256-n-1+m))
			list = append(list, "search "+strings.Repeat("a", n-1)+" "+second, "search a a a a a "+second, "search a a a a a a "+second)
		}
	}
	// Both sides of musl's 254 bytes, with a newline, without, and with more after.
	for n := 251; n <= 258; n++ {
		line := "search " + strings.Repeat("a", n-len("search "))
		list = append(list, line, line+"\n", line+"\nnameserver 10.0.0.1\n", "#"+line[1:]+"\nsearch b",
			line[:n-1]+"\x00\nsearch b\nsearch c\n", line[:n-2]+"\x00a")
	}
	return list
}

// Pieces of random texts, by their position in a line.
var (
	keywords = []string{"nameserver", "nameserver", "nameserver", "nameserver", "search", "search",
		"search", "domain", "options", "options", "options", "options", "#", ";", "", " ", "Search", "option", "\ufeffsearch", "sortlist"}
	blanks = []string{" ", " ", " ", " ", "\t", "  ", " \t ", "\v", "\f", "\r", "", "\x00", "\u00a0"}
	ends   = []string{"\n", "\n", "\n", "\n", "\n", "\n", "\r\n", " \n", "\n\n", "\x00\n", "\r", "\n \n"}
	values = []string{"10.0.0.1", "127.1", "0x7f.1", "0177.1", "::1", "fe80::1%lo", "fe80::1%1",
		"fd00::1%9", "ff02::2%lo", "fd00::1%lo", "::ffff:1.2.3.4", "1.2.3.4.5", "localhost", "256.1.1.1",
		"a", "b.example", "svc.cluster.local", "c.", ".", "..", "x_y", "\xc3\xa4", "#", ";",
		"rotate", "edns0", "single-request", "single-request-reopen", "no-aaaa", "use-vc", "trust-ad", "inet6", "no-reload",
		"ndots:", "ndots:1", "ndots:15", "ndots:16", "ndots:-1", "ndots:a", "timeout:0", "timeout:1",
		"timeout:30", "timeout:31", "timeout:61", "timeout:-5", "attempts:0", "attempts:5", "attempts:6", "attempts:11",
		"attempts:99999999999999999999", "7", "-3", "ndots:3timeout:4", "timeout:+2", "1"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// compose returns a random text of a few lines.
func compose(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(7) {
		b.WriteString(pick(r, keywords))
		for range r.IntN(6) {
			b.WriteString(pick(r, blanks))
			b.WriteString(pick(r, values))
		}
		if r.IntN(12) == 0 {
			b.WriteString(strings.Repeat(pick(r, []string{"a", " ", "a "}), r.IntN(300)))
		}
		b.WriteString(pick(r, ends))
	}
	s := b.String()
	if r.IntN(4) == 0 {
		s = strings.TrimRight(s, "\n")
	}
	return s
}

// mutate changes a few bytes of s.
func mutate(r *rand.Rand, s string) string {
	const alphabet = " \t\n\r\v\x00\xff:.%#;-+019afx"
	b := []byte(s)
	for range 1 + r.IntN(3) {
		i := r.IntN(len(b) + 1)
		switch c := alphabet[r.IntN(len(alphabet))]; {
		case i == len(b) || r.IntN(3) == 0:
			b = append(b[:i], append([]byte{c}, b[i:]...)...)
		case r.IntN(2) == 0:
			b[i] = c
		default:
			b = append(b[:i], b[i+1:]...)
		}
	}
	return string(b)
}
