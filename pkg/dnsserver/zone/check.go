// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The Check functions report why an object cannot have names. The API server validates its
// objects; those from other sources, such as manifests and snapshots, must be checked before
// they are put into a zone.

// CheckNamespace checks the name of a namespace in a zone at domain.
func CheckNamespace(domain fqdn.Name, name string) error {
	return checkNames(domain, field{"metadata.name", name})
}

// Check checks the Service in a zone at domain.
func (s *Service) Check(domain fqdn.Name) error {
	if err := checkNames(domain, field{"metadata.name", s.Name}, field{"metadata.namespace", s.Namespace}); err != nil {
		return err
	}
	for _, addr := range s.ClusterIPs {
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("spec.clusterIPs: %w", err)
		}
	}
	for _, p := range s.Ports {
		if err := p.Check(); err != nil {
			return fmt.Errorf("spec.ports: %w", err)
		}
	}
	return nil
}

// Check checks the slice in a zone at domain.
func (s *EndpointSlice) Check(domain fqdn.Name) error {
	if err := checkNames(domain, field{"label kubernetes.io/service-name", s.Service},
		field{"metadata.namespace", s.Namespace}); err != nil {
		return err
	}
	for _, p := range s.Ports {
		if err := p.Check(); err != nil {
			return fmt.Errorf("ports: %w", err)
		}
	}
	for _, ep := range s.Endpoints {
		if err := s.CheckEndpoint(domain, ep); err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
	}
	return nil
}

// CheckEndpoint checks one endpoint of a slice with a valid name.
func (s *EndpointSlice) CheckEndpoint(domain fqdn.Name, ep Endpoint) error {
	if err := checkAddr(ep.Addr); err != nil {
		return err
	}
	return checkNames(domain, field{"hostname", hostLabel(ep.Hostname, ep.Addr)},
		field{"label kubernetes.io/service-name", s.Service}, field{"metadata.namespace", s.Namespace})
}

// Check checks the port.
func (p Port) Check() error {
	if p.Name != "" {
		if problems := fqdn.LabelProblems(p.Name); problems != nil {
			return fmt.Errorf("name %q: %s", p.Name, strings.Join(problems, ", "))
		}
	}
	if p.Protocol != "tcp" && p.Protocol != "udp" && p.Protocol != "sctp" {
		return fmt.Errorf("protocol %q: must be TCP, UDP or SCTP", p.Protocol)
	}
	if p.Number == 0 {
		return errors.New("port is 0")
	}
	return nil
}

// Check checks the pod in a zone at domain. The name of the pod is in no record.
func (p *Pod) Check(domain fqdn.Name) error {
	for _, addr := range p.Addrs {
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("status.podIPs: %w", err)
		}
		if err := checkNames(domain, field{"address", addrLabel(addr)}, field{"metadata.namespace", p.Namespace}); err != nil {
			return err
		}
	}
	return nil
}

// checkAddr accepts the addresses that a record can carry, in their canonical form.
func checkAddr(addr netip.Addr) error {
	if !addr.IsValid() || addr.Is4In6() || addr.Zone() != "" {
		return fmt.Errorf("%v is not an address for a DNS record: want IPv4 or IPv6, neither mapped nor with a zone", addr)
	}
	return nil
}

// field is a label of a name and its field in the API.
type field struct{ path, label string }

// checkNames checks the labels, and the length of the name that they make below
// svc.<domain>.
func checkNames(domain fqdn.Name, labels ...field) error {
	wire := len("\x03svc") + len(domain)
	for _, l := range labels {
		if problems := fqdn.LabelProblems(l.label); problems != nil {
			return fmt.Errorf("%s %q: %s", l.path, l.label, strings.Join(problems, ", "))
		}
		wire += 1 + len(l.label)
	}
	if wire > fqdn.MaxWire {
		return fmt.Errorf("%s %q: name below %s has %d bytes on the wire: the limit is %d",
			labels[0].path, labels[0].label, domain, wire, fqdn.MaxWire)
	}
	return nil
}
