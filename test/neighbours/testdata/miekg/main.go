// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Program miekg looks up the A records of a name as CoreDNS and others do that read resolv.conf
// with the library miekg/dns.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/miekg/dns"
)

func main() {
	config, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		panic(err)
	}
	for _, name := range config.NameList(os.Args[1]) {
		reply, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(config.Servers[0], config.Port))
		if err != nil {
			panic(err)
		}
		for _, rr := range reply.Answer {
			fmt.Println(rr)
		}
	}
}
