// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/message"
)

// cause is why a query to other servers failed. The cache keeps it with the failure.
type cause uint8

const (
	causeReply     cause = iota // a server replied with the rcode of an error
	causeNoReply                // no server replied, or the query was not sent because of a network error
	causeMalformed              // the reply is malformed
)

// causeOf returns the cause of an error of an Exchange.
func causeOf(err error) cause {
	if errors.Is(err, message.ErrMalformed) {
		return causeMalformed
	}
	return causeNoReply
}

// extended returns the extended error for clients, or nil if the rcode says all that is known. It
// does not contain the error of the Exchange, which discloses addresses of servers.
func (c cause) extended() *dns.EDNS0_EDE {
	text := ""
	switch c {
	case causeNoReply:
		text = "no upstream server answered"
	case causeMalformed:
		text = "the upstream server's reply is malformed"
	default:
		return nil
	}
	return &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNetworkError, ExtraText: text}
}
