// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Field numbers of runtime.v1 (k8s.io/cri-api/pkg/apis/runtime/v1/api.proto).
const (
	requestConfig = 1 // RunPodSandboxRequest.config

	configMetadata    = 1 // PodSandboxConfig
	configHostname    = 2
	configDNS         = 4
	configLabels      = 6
	configAnnotations = 7
	configLinux       = 8

	metadataName      = 1 // PodSandboxMetadata
	metadataUID       = 2
	metadataNamespace = 3

	dnsServers  = 1 // DNSConfig
	dnsSearches = 2
	dnsOptions  = 3

	linuxSecurity      = 2 // LinuxPodSandboxConfig.security_context
	securityNamespaces = 1 // LinuxSandboxSecurityContext.namespace_options
	namespaceNetwork   = 1 // NamespaceOption.network
	namespaceModeNode  = 2 // NamespaceMode.NODE

	mapKey   = 1 // an entry of a map
	mapValue = 2
)

// Sandbox holds the fields of a RunPodSandboxRequest that a [Hook] uses.
type Sandbox struct {
	Namespace, Name, UID string

	Hostname    string
	HostNetwork bool
	Annotations map[string]string
	IPs         []netip.Addr // of the pod; empty: unknown, as in every request of a kubelet

	// DNS is the configuration that the kubelet computed. HasDNS reports whether the
	// request has one; runtimes distinguish none from an empty one.
	DNS    resolvconf.Config
	HasDNS bool

	// FromFile reports whether DNS was read from the resolv.conf that the runtime wrote. A
	// value with a line break is several lines there, and Hostname is not known.
	FromFile bool

	// Unverified reports whether the pod may have changed DNS. It is then compared with the
	// kubelet's in mode Force, too.
	Unverified bool
}

var (
	errMalformed = errors.New("not a protocol buffer")
	errNotUTF8   = errors.New("DNS configuration is not UTF-8, which no runtime accepts")
)

// field is one field of an encoded message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	raw    []byte // the whole field, with its tag
	value  []byte // if kind is BytesType
	varint uint64 // if kind is VarintType
}

// rangeFields calls yield for every field of message, in order, until yield returns an
// error.
func rangeFields(message []byte, yield func(field) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return errMalformed
		}
		n := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if n < 0 {
			return errMalformed
		}
		f := field{number: number, kind: kind, raw: message[:tag+n]}
		switch kind {
		case protowire.BytesType:
			f.value, _ = protowire.ConsumeBytes(message[tag:])
		case protowire.VarintType:
			f.varint, _ = protowire.ConsumeVarint(message[tag:])
		}
		if err := yield(f); err != nil {
			return err
		}
		message = message[tag+n:]
	}
	return nil
}

// A reader reads the fields of a message, by their numbers. A field may occur several times, as in every protocol
// buffer: messages are merged, the last scalar wins.
type reader map[protowire.Number]func(field) error

func (r reader) read(message []byte) error {
	return rangeFields(message, func(f field) error {
		if read := r[f.number]; read != nil {
			return read(f)
		}
		return nil
	})
}

// bytesField reads a field that has bytes, a text or a message.
func bytesField(read func(value []byte) error) func(field) error {
	return func(f field) error {
		if f.kind != protowire.BytesType {
			return fmt.Errorf("field %d has wire type %d, want %d", f.number, f.kind, protowire.BytesType)
		}
		return read(f.value)
	}
}

func textField(text *string) func(field) error {
	return bytesField(func(value []byte) error { *text = string(value); return nil })
}

func listField(list *[]string) func(field) error {
	return bytesField(func(value []byte) error { *list = append(*list, string(value)); return nil })
}

func messageField(fields reader) func(field) error { return bytesField(fields.read) }

// parseSandbox reads a RunPodSandboxRequest.
func parseSandbox(request []byte) (Sandbox, error) {
	s := Sandbox{Annotations: map[string]string{}}
	dns := reader{dnsServers: listField(&s.DNS.Nameservers), dnsSearches: listField(&s.DNS.Searches), dnsOptions: listField(&s.DNS.Options)}
	err := reader{requestConfig: messageField(reader{
		configMetadata:    s.metadataField(),
		configHostname:    textField(&s.Hostname),
		configDNS:         bytesField(func(message []byte) error { s.HasDNS = true; return dns.read(message) }),
		configLabels:      bytesField(func([]byte) error { return nil }),
		configAnnotations: s.annotationField(),
		configLinux:       messageField(reader{linuxSecurity: messageField(reader{securityNamespaces: s.namespacesField()})}),
	})}.read(request)
	return s, err
}

// metadataField reads a PodSandboxMetadata.
func (s *Sandbox) metadataField() func(field) error {
	return messageField(reader{
		metadataName: textField(&s.Name), metadataUID: textField(&s.UID), metadataNamespace: textField(&s.Namespace),
	})
}

func (s *Sandbox) annotationField() func(field) error {
	return bytesField(func(entry []byte) error {
		key, value, err := readEntry(entry)
		s.Annotations[key] = value
		return err
	})
}

// namespacesField reads a NamespaceOption.
func (s *Sandbox) namespacesField() func(field) error {
	return messageField(reader{namespaceNetwork: func(f field) error {
		if f.kind == protowire.VarintType {
			s.HostNetwork = f.varint == namespaceModeNode
		}
		return nil
	}})
}

// readEntry reads an entry of a map of strings.
func readEntry(entry []byte) (key, value string, err error) {
	err = rangeFields(entry, func(f field) error {
		switch {
		case f.kind != protowire.BytesType:
		case f.number == mapKey:
			key = string(f.value)
		case f.number == mapValue:
			value = string(f.value)
		}
		return nil
	})
	return key, value, err
}

// setDNS returns a copy of request with dns as its DNS configuration. All other bytes stay
// in their order, including unknown fields of the DNS configuration.
func setDNS(request []byte, dns resolvconf.Config) ([]byte, error) {
	for _, list := range [...][]string{dns.Nameservers, dns.Searches, dns.Options} {
		if slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, errNotUTF8
		}
	}
	var before, config, unknown, after []byte
	found := false
	err := rangeFields(request, func(f field) error {
		switch {
		case f.number == requestConfig:
			found = true
			return splitDNS(f.value, &config, &unknown)
		case found:
			after = append(after, f.raw...)
		default:
			before = append(before, f.raw...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	config = protowire.AppendTag(config, configDNS, protowire.BytesType)
	config = protowire.AppendBytes(config, appendDNS(unknown, dns))

	edited := make([]byte, 0, len(request)+len(config))
	edited = append(edited, before...)
	edited = protowire.AppendTag(edited, requestConfig, protowire.BytesType)
	edited = protowire.AppendBytes(edited, config)
	return append(edited, after...), nil
}

// splitDNS appends the fields of a PodSandboxConfig to rest, except the DNS configuration,
// whose unknown fields it appends to unknown. It removes every DNS configuration: a reader
// would merge a second one with the first.
func splitDNS(message []byte, rest, unknown *[]byte) error {
	return rangeFields(message, func(f field) error {
		if f.number != configDNS {
			*rest = append(*rest, f.raw...)
			return nil
		}
		return rangeFields(f.value, func(f field) error {
			if f.number != dnsServers && f.number != dnsSearches && f.number != dnsOptions {
				*unknown = append(*unknown, f.raw...)
			}
			return nil
		})
	})
}

func appendDNS(b []byte, dns resolvconf.Config) []byte {
	for _, l := range []struct {
		number protowire.Number
		values []string
	}{{dnsServers, dns.Nameservers}, {dnsSearches, dns.Searches}, {dnsOptions, dns.Options}} {
		for _, v := range l.values {
			b = protowire.AppendTag(b, l.number, protowire.BytesType)
			b = protowire.AppendString(b, v)
		}
	}
	return b
}

// frame is one encoded message. It can be sent once: sending clears its data, which gRPC then owns.
type frame struct{ data mem.BufferSlice }

// rawCodec passes messages through without decoding them. Its name is empty because
// gRPC appends the name of a codec to the content type, and the runtime must receive the
// content type of the kubelet, which the forwarder sets.
type rawCodec struct{}

func (rawCodec) Name() string { return "" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("raw codec: cannot send a %T", v)
	}
	data := f.data
	f.data = nil
	return data, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("raw codec: cannot receive into a %T", v)
	}
	data.Ref()
	f.data = data
	return nil
}
