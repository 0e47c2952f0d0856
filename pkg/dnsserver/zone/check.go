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

// What is put into a zone must be able to have names. The API server sees to that;
// for objects from anywhere else, the functions below say why it is not so.

// CheckNamespace is about the name of a namespace in a zone at domain.
func CheckNamespace(domain fqdn.Name, name string) error {
	return checkNames(domain, field{"metadata.name", name})
}

// Check is about the service in a zone at domain.
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

// Check is about the slice in a zone at domain.
func (s *EndpointSlice) Check(domain fqdn.Name) error {
	if err := checkNames(domain, field{"label kubernetes.io/service-name", s.Service}, field{"metadata.namespace", s.Namespace}); err != nil {
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

// CheckEndpoint is about one endpoint of the slice, whose own name is right.
func (s *EndpointSlice) CheckEndpoint(domain fqdn.Name, ep Endpoint) error {
	if err := checkAddr(ep.Addr); err != nil {
		return err
	}
	return checkNames(domain, field{"hostname", hostLabel(ep.Hostname, ep.Addr)},
		field{"label kubernetes.io/service-name", s.Service}, field{"metadata.namespace", s.Namespace})
}

// Check is about the port in any zone.
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
		return errors.New("the port is 0")
	}
	return nil
}

// Check is about the pod in a zone at domain. Its own name is in none of the zone's.
func (p *Pod) Check(domain fqdn.Name) error {
	for _, addr := range p.Addrs {
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("status.podIPs: %w", err)
		}
		if err := checkNames(domain, field{"the address", dashed(addr)}, field{"metadata.namespace", p.Namespace}); err != nil {
			return err
		}
	}
	return nil
}

// checkAddr: one spelling of an address, and one that a record can carry.
func checkAddr(addr netip.Addr) error {
	if !addr.IsValid() || addr.Is4In6() || addr.Zone() != "" {
		return fmt.Errorf("%v is not an address for a DNS record", addr)
	}
	return nil
}

// field is a label of a name, and what it is in the API.
type field struct{ path, label string }

// checkNames is about the name that the labels make up below svc.<domain>.
func checkNames(domain fqdn.Name, labels ...field) error {
	wire := len("\x03svc") + len(domain)
	for _, l := range labels {
		if problems := fqdn.LabelProblems(l.label); problems != nil {
			return fmt.Errorf("%s %q: %s", l.path, l.label, strings.Join(problems, ", "))
		}
		wire += 1 + len(l.label)
	}
	if wire > fqdn.MaxWire {
		return fmt.Errorf("%s %q: its name below %s has %d bytes on the wire, a domain name has at most %d",
			labels[0].path, labels[0].label, domain, wire, fqdn.MaxWire)
	}
	return nil
}
