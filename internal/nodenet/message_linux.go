// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is a message to nf_tables.
type message struct {
	kind  uint16
	attrs []*nl.RtAttr
}

// commit sends the messages as one batch: the kernel applies all of them or none.
func commit(socket *nl.NetlinkSocket, messages []message) error {
	boundary := header{kind: unix.NFNL_MSG_BATCH_BEGIN, sequence: 1, family: unix.AF_UNSPEC, resource: unix.NFNL_SUBSYS_NFTABLES}
	batch := appendMessage(nil, boundary, nil)
	for i, m := range messages {
		h := header{kind: unix.NFNL_SUBSYS_NFTABLES<<8 | m.kind, flags: unix.NLM_F_CREATE,
			sequence: uint32(i + 2), family: unix.NFPROTO_INET}
		if m.kind == unix.NFT_MSG_NEWRULE {
			h.flags |= unix.NLM_F_APPEND
		}
		if i == len(messages)-1 {
			h.flags |= unix.NLM_F_ACK // errors of all messages are reported without a request
		}
		batch = appendMessage(batch, h, m.attrs)
	}
	boundary.kind, boundary.sequence = unix.NFNL_MSG_BATCH_END, uint32(len(messages)+2)
	batch = appendMessage(batch, boundary, nil)
	if err := unix.Sendto(socket.GetFd(), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return receiveResult(socket)
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

// header is the header of a netlink message of netfilter (struct nlmsghdr, struct nfgenmsg).
type header struct {
	kind, flags uint16
	sequence    uint32
	family      byte
	resource    uint16
}

// appendMessage appends a request with this header and attributes.
func appendMessage(b []byte, h header, attrs []*nl.RtAttr) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0) // the length, see below
	b = binary.NativeEndian.AppendUint16(b, h.kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|h.flags)
	b = binary.NativeEndian.AppendUint32(b, h.sequence)
	b = binary.NativeEndian.AppendUint32(b, 0) // the sender: set by the kernel
	b = append(b, h.family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, h.resource)
	for _, a := range attrs {
		b = append(b, a.Serialize()...)
	}
	binary.NativeEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b
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
func expression(name string, attrs ...*nl.RtAttr) []*nl.RtAttr {
	e := []*nl.RtAttr{text(unix.NFTA_EXPR_NAME, name)}
	if len(attrs) > 0 {
		e = append(e, nested(unix.NFTA_EXPR_DATA, attrs...))
	}
	return e
}

// meta loads a property of the packet into register 1.
func meta(key uint32) []*nl.RtAttr {
	return expression("meta", number(unix.NFTA_META_KEY, key), number(unix.NFTA_META_DREG, unix.NFT_REG_1))
}

// payload loads a field of a header into register 1.
func payload(base, offset, length uint32) []*nl.RtAttr {
	return expression("payload", number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), number(unix.NFTA_PAYLOAD_BASE, base),
		number(unix.NFTA_PAYLOAD_OFFSET, offset), number(unix.NFTA_PAYLOAD_LEN, length))
}

// compare returns load, and the expression that compares register 1 with a value.
func compare(load []*nl.RtAttr, value []byte) [][]*nl.RtAttr {
	equal := expression("cmp", number(unix.NFTA_CMP_SREG, unix.NFT_REG_1), number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
		nested(unix.NFTA_CMP_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, value)))
	return [][]*nl.RtAttr{load, equal}
}
