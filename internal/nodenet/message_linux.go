// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is a message to nf_tables.
type message struct {
	kind  int
	attrs []*nl.RtAttr
}

// commit sends the messages as one batch: the kernel applies all of them or none.
func commit(socket *nl.NetlinkSocket, messages []message) error {
	boundary := func(kind int) []byte {
		subsystem := binary.NativeEndian.Uint16([]byte{0, unix.NFNL_SUBSYS_NFTABLES}) // in network byte order
		return serialize(kind, 0, nl.Nfgenmsg{ResId: subsystem}, nil)
	}
	batch := boundary(unix.NFNL_MSG_BATCH_BEGIN)
	for i, m := range messages {
		flags := unix.NLM_F_CREATE
		if m.kind == unix.NFT_MSG_NEWRULE {
			flags |= unix.NLM_F_APPEND
		}
		if i == len(messages)-1 {
			flags |= unix.NLM_F_ACK // errors of all messages are reported without a request
		}
		inet := nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET}
		batch = append(batch, serialize(unix.NFNL_SUBSYS_NFTABLES<<8|m.kind, flags, inet, m.attrs)...)
	}
	batch = append(batch, boundary(unix.NFNL_MSG_BATCH_END)...)
	if err := unix.Sendto(socket.GetFd(), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return receiveResult(socket)
}

func serialize(kind, flags int, header nl.Nfgenmsg, attrs []*nl.RtAttr) []byte {
	request := nl.NewNetlinkRequest(kind, flags)
	request.AddData(&header)
	for _, a := range attrs {
		request.AddData(a)
	}
	return request.Serialize()
}

// receiveResult returns the first error of a batch, or nil: without an error the kernel
// acknowledges the last message alone.
func receiveResult(socket *nl.NetlinkSocket) error {
	for {
		replies, from, err := socket.Receive()
		if errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("no reply from the kernel in %v", timeout)
		}
		if err != nil {
			return err
		}
		for _, r := range replies {
			if from.Pid == nl.PidKernel && r.Header.Type == unix.NLMSG_ERROR && len(r.Data) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(r.Data)); code != 0 {
					return syscall.Errno(-code)
				}
				return nil
			}
		}
	}
}

func text(kind int, value string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(value)) }

func number(kind int, value uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.BEUint32Attr(value)) }

func nested(kind int, attrs ...*nl.RtAttr) *nl.RtAttr {
	n := nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil)
	for _, a := range attrs {
		n.AddChild(a)
	}
	return n
}

// expression returns an expression of a rule: its name and its attributes.
func expression(name string, attrs ...*nl.RtAttr) *nl.RtAttr {
	e := nested(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, name))
	if len(attrs) > 0 {
		e.AddChild(nested(unix.NFTA_EXPR_DATA, attrs...))
	}
	return e
}

// meta loads a property of the packet into register 1.
func meta(key uint32) *nl.RtAttr {
	return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, unix.NFT_REG_1))
}

// payload loads a field of a header into register 1.
func payload(base, offset, length uint32) *nl.RtAttr {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), number(unix.NFTA_PAYLOAD_BASE, base),
		number(unix.NFTA_PAYLOAD_OFFSET, offset), number(unix.NFTA_PAYLOAD_LEN, length))
}

// compare returns load, and the expression that compares register 1 with a value.
func compare(load *nl.RtAttr, value ...byte) []*nl.RtAttr {
	return []*nl.RtAttr{load, expression("cmp", number(unix.NFTA_CMP_SREG, unix.NFT_REG_1), number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
		nested(unix.NFTA_CMP_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, value)))}
}

// native returns a number as the kernel compares it in a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func newTable(name string, flags uint32) message {
	return message{unix.NFT_MSG_NEWTABLE, []*nl.RtAttr{text(unix.NFTA_TABLE_NAME, name), number(unix.NFTA_TABLE_FLAGS, flags)}}
}

// hook is a hook of netfilter; its name is that of the chain, too.
type hook struct {
	name   string
	number uint32
}

var (
	prerouting  = hook{"prerouting", unix.NF_INET_PRE_ROUTING}
	output      = hook{"output", unix.NF_INET_LOCAL_OUT}
	postrouting = hook{"postrouting", unix.NF_INET_POST_ROUTING}
)

// newChain creates a chain of a type, such as "filter" or "nat".
func newChain(table string, h hook, kind string, priority int32) message {
	return message{unix.NFT_MSG_NEWCHAIN, []*nl.RtAttr{
		text(unix.NFTA_CHAIN_TABLE, table),
		text(unix.NFTA_CHAIN_NAME, h.name),
		text(unix.NFTA_CHAIN_TYPE, kind),
		nested(unix.NFTA_CHAIN_HOOK,
			number(unix.NFTA_HOOK_HOOKNUM, h.number),
			number(unix.NFTA_HOOK_PRIORITY, uint32(priority))),
	}}
}

// newRule appends a rule to a chain: the expressions of all parts, in their order.
func newRule(table string, h hook, parts ...[]*nl.RtAttr) message {
	return message{unix.NFT_MSG_NEWRULE, []*nl.RtAttr{
		text(unix.NFTA_RULE_TABLE, table),
		text(unix.NFTA_RULE_CHAIN, h.name),
		nested(unix.NFTA_RULE_EXPRESSIONS, slices.Concat(parts...)...),
	}}
}
