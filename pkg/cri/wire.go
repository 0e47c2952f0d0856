// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"

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

// Sandbox is what a RunPodSandboxRequest says that matters here.
type Sandbox struct {
	Namespace, Name, UID string

	Hostname    string
	HostNetwork bool
	Annotations map[string]string

	// DNS is what the kubelet computed; HasDNS tells whether it is in the message
	// at all. To a runtime a message without it is not one with an empty one.
	DNS    resolvconf.Config
	HasDNS bool
}

var errMalformed = errors.New("not a protocol buffer")

// field is one field of a message on the wire.
type field struct {
	number protowire.Number
	kind   protowire.Type
	whole  []byte // with its tag
	value  []byte // of a field of bytes
	varint uint64 // of a field of a number
}

// fields calls each for every field of message, in order.
func fields(message []byte, each func(field) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return errMalformed
		}
		n := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if n < 0 {
			return errMalformed
		}
		f := field{number: number, kind: kind, whole: message[:tag+n]}
		switch kind {
		case protowire.BytesType:
			f.value, _ = protowire.ConsumeBytes(message[tag:])
		case protowire.VarintType:
			f.varint, _ = protowire.ConsumeVarint(message[tag:])
		}
		if err := each(f); err != nil {
			return err
		}
		message = message[tag+n:]
	}
	return nil
}

// expect refuses a field whose wire type is not the one of its number.
func (f field) expect(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("field %d has wire type %d, want %d", f.number, f.kind, kind)
	}
	return nil
}

// parseSandbox reads a RunPodSandboxRequest. As in every protocol buffer a field
// may stand more than once: messages are merged, the last text wins.
func parseSandbox(request []byte) (Sandbox, error) {
	s := Sandbox{Annotations: map[string]string{}}
	err := fields(request, func(f field) error {
		if f.number != requestConfig {
			return nil
		}
		if err := f.expect(protowire.BytesType); err != nil {
			return err
		}
		return fields(f.value, s.config)
	})
	return s, err
}

func (s *Sandbox) config(f field) error {
	switch f.number {
	case configMetadata, configHostname, configDNS, configLabels, configAnnotations, configLinux:
		if err := f.expect(protowire.BytesType); err != nil {
			return err
		}
	}
	switch f.number {
	case configMetadata:
		return fields(f.value, s.metadata)
	case configHostname:
		s.Hostname = string(f.value)
	case configDNS:
		s.HasDNS = true
		return fields(f.value, s.dns)
	case configAnnotations:
		return s.annotation(f.value)
	case configLinux:
		return s.linux(f.value)
	}
	return nil
}

func (s *Sandbox) metadata(f field) error {
	texts := map[protowire.Number]*string{metadataName: &s.Name, metadataUID: &s.UID, metadataNamespace: &s.Namespace}
	if text := texts[f.number]; text != nil {
		*text = string(f.value)
		return f.expect(protowire.BytesType)
	}
	return nil
}

func (s *Sandbox) dns(f field) error {
	lists := map[protowire.Number]*[]string{dnsServers: &s.DNS.Nameservers, dnsSearches: &s.DNS.Searches, dnsOptions: &s.DNS.Options}
	if list := lists[f.number]; list != nil {
		*list = append(*list, string(f.value))
		return f.expect(protowire.BytesType)
	}
	return nil
}

func (s *Sandbox) annotation(entry []byte) error {
	var key, value string
	err := fields(entry, func(f field) error {
		switch f.number {
		case mapKey:
			key = string(f.value)
		case mapValue:
			value = string(f.value)
		}
		return nil
	})
	s.Annotations[key] = value
	return err
}

func (s *Sandbox) linux(message []byte) error {
	return within(message, linuxSecurity, func(security []byte) error {
		return within(security, securityNamespaces, func(namespaces []byte) error {
			return fields(namespaces, func(f field) error {
				if f.number == namespaceNetwork {
					s.HostNetwork = f.varint == namespaceModeNode
				}
				return nil
			})
		})
	})
}

// within calls inside for each message at the field of that number.
func within(message []byte, number protowire.Number, inside func([]byte) error) error {
	return fields(message, func(f field) error {
		if f.number != number || f.kind != protowire.BytesType {
			return nil
		}
		return inside(f.value)
	})
}

// withDNS returns request with dns in the place of what the kubelet put there. All
// other bytes stay and keep their order, also the fields of the DNS configuration
// that are not known here. request itself is not changed.
func withDNS(request []byte, dns resolvconf.Config) ([]byte, error) {
	var before, config, unknown, after []byte
	found := false
	err := fields(request, func(f field) error {
		switch {
		case f.number == requestConfig:
			found = true
			return splitDNS(f.value, &config, &unknown)
		case found:
			after = append(after, f.whole...)
		default:
			before = append(before, f.whole...)
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

// splitDNS appends the fields of a PodSandboxConfig to rest, save the DNS
// configuration, of which it appends the unknown fields to unknown. A second DNS
// configuration would be merged with the first, so both have to go.
func splitDNS(message []byte, rest, unknown *[]byte) error {
	return fields(message, func(f field) error {
		if f.number != configDNS {
			*rest = append(*rest, f.whole...)
			return nil
		}
		return fields(f.value, func(f field) error {
			if f.number != dnsServers && f.number != dnsSearches && f.number != dnsOptions {
				*unknown = append(*unknown, f.whole...)
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
