// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command echo is a DNS server without data: it returns every query, marked as a reply.
// It reads and writes in batches (recvmmsg, sendmmsg), so its cost is that of the kernel
// and of Go for any server, a lower bound.
package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/net/ipv4"
)

const (
	batch    = 64
	response = 0x80 // the QR bit, in the third byte of a header
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: echo ADDRESS:PORT")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	socket, err := net.ListenPacket("udp4", address)
	if err != nil {
		return err
	}
	conn := ipv4.NewPacketConn(socket)
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, 1232)}
	}
	replies := make([]ipv4.Message, batch)
	for {
		n, err := conn.ReadBatch(messages, 0)
		if err != nil {
			return err
		}
		for i, m := range messages[:n] {
			text := m.Buffers[0][:m.N]
			if len(text) > 2 {
				text[2] |= response
			}
			replies[i] = ipv4.Message{Buffers: [][]byte{text}, Addr: m.Addr}
		}
		for rest := replies[:n]; len(rest) > 0; {
			sent, err := conn.WriteBatch(rest, 0)
			if err != nil {
				return err
			}
			rest = rest[sent:]
		}
	}
}
