// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Program golang does for package net what the C programs of this directory do for their
// libraries. Without arguments it prints /etc/resolv.conf as package net has read it. With
// one argument it looks up the A records of a name, with the arguments of ask.c it does the same; with "each"
// it prints nothing. It must be built without cgo, and with the linker's flag -checklinkname=0.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	_ "unsafe"
)

// dnsConfig has the fields of net/dnsconfig.go.
type dnsConfig struct {
	servers       []string
	search        []string
	ndots         int
	timeout       time.Duration
	attempts      int
	rotate        bool
	unknownOpt    bool
	lookup        []string
	err           error
	mtime         time.Time
	soffset       uint32
	singleRequest bool
	useTCP        bool
	trustAD       bool
	noReload      bool
}

//go:linkname dnsReadConfig net.dnsReadConfig
func dnsReadConfig(filename string) *dnsConfig

func main() {
	switch len(os.Args) {
	case 1:
		tell(dnsReadConfig("/etc/resolv.conf"))
		return
	case 2:
		_, _ = ask(4, os.Args[1])
		return
	}
	if os.Args[1] == "each" {
		each(os.Args[2], os.Args[3:])
		return
	}
	how, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines, err := ask(how, os.Args[2])
	if err != nil {
		lines = []string{"error " + name(err)}
	}
	fmt.Println(strings.Join(lines, "\n"))
}

// each looks up names, with a pause in milliseconds before each.
func each(pause string, names []string) {
	d, err := time.ParseDuration(pause + "ms")
	if err != nil {
		panic(err)
	}
	for _, n := range names {
		time.Sleep(d)
		_, _ = net.LookupHost(n)
	}
}

// tell prints the configuration, with glibc's bits of the options.
func tell(c *dnsConfig) {
	for _, s := range c.servers {
		host, _, _ := net.SplitHostPort(s)
		address, zone, _ := strings.Cut(host, "%")
		if zone == "lo" {
			zone = "1"
		}
		if n, err := strconv.ParseUint(zone, 10, 32); err != nil || zone == "" {
			zone = "0"
		} else {
			zone = strconv.FormatUint(n, 10)
		}
		fmt.Printf("nameserver %s %s\n", address, zone)
	}
	for _, s := range c.search {
		fmt.Printf("search %x\n", s)
	}
	options := 0
	for bit, set := range map[int]bool{
		0x8: c.useTCP, 0x4000: c.rotate, 0x200000: c.singleRequest, 0x2000000: c.noReload, 0x4000000: c.trustAD,
	} {
		if set {
			options |= bit
		}
	}
	fmt.Printf("ndots %d\ntimeout %d\nattempts %d\noptions %d\n", c.ndots, c.timeout/time.Second, c.attempts, options)
}

// ask looks up a name: 0, 4 and 6 are the families, other numbers are record types.
func ask(how int, name string) (lines []string, err error) {
	ctx, r := context.Background(), net.DefaultResolver
	switch how {
	case 0:
		list, err := r.LookupIPAddr(ctx, name)
		for _, a := range list {
			lines = append(lines, a.String())
		}
		if err == nil && list == nil { // as for a connection
			err = &net.AddrError{Err: "no suitable address found", Addr: name}
		}
		return lines, err
	case 4, 6:
		list, err := r.LookupIP(ctx, "ip"+strconv.Itoa(how), name)
		for _, a := range list {
			lines = append(lines, a.String())
		}
		return lines, err
	case 2:
		list, err := r.LookupNS(ctx, name)
		return []string{strconv.Itoa(len(list))}, err
	case 15:
		list, err := r.LookupMX(ctx, name)
		return []string{strconv.Itoa(len(list))}, err
	case 16:
		list, err := r.LookupTXT(ctx, name)
		return []string{strconv.Itoa(len(list))}, err
	case 33:
		_, list, err := r.LookupSRV(ctx, "", "", name)
		return []string{strconv.Itoa(len(list))}, err
	}
	return nil, fmt.Errorf("no function for the type %d", how)
}

// name returns the name of an error in package net, and its text.
func name(err error) string {
	var d *net.DNSError
	if !errors.As(err, &d) {
		var a *net.AddrError
		if errors.As(err, &a) {
			return "errNoSuitableAddress: " + a.Err
		}
		return err.Error()
	}
	text := d.Err
	for _, end := range []string{"i/o timeout", "connection refused"} {
		if strings.HasSuffix(text, end) { // after the addresses of the socket
			text = end
		}
	}
	known := map[string]string{
		"no such host":                 "errNoSuchHost",
		"i/o timeout":                  "errTimeout",
		"connection refused":           "ECONNREFUSED",
		"server misbehaving":           "errServerMisbehaving",
		"lame referral":                "errLameReferral",
		"cannot marshal DNS message":   "errCannotMarshalDNSMessage",
		"cannot unmarshal DNS message": "errCannotUnmarshalDNSMessage",
	}[text]
	if known == "errServerMisbehaving" && d.IsTemporary {
		known = "errServerTemporarilyMisbehaving"
	}
	temporary := known == "errTimeout" || known == "ECONNREFUSED" || known == "errServerTemporarilyMisbehaving"
	if d.IsNotFound != (known == "errNoSuchHost") || d.IsTimeout != (known == "errTimeout") || d.IsTemporary != temporary {
		return fmt.Sprintf("%s: flags %t %t %t", known, d.IsNotFound, d.IsTimeout, d.IsTemporary)
	}
	return known + ": " + text
}
