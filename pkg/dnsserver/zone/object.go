// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Service has the fields of a Service that DNS needs. Strings are as in the API, in lower
// case. The zero value of a field means that it is unset.
type Service struct {
	Namespace string
	Name      string

	// ClusterIPs are the virtual addresses, at most one per family. A Service without
	// ClusterIPs and ExternalName is headless.
	ClusterIPs []netip.Addr

	// ExternalName is the target of a Service of type ExternalName. Such a Service has
	// no addresses, and its endpoints are ignored.
	ExternalName string

	Ports []Port

	External *External // nil: none, or there are no external zones

	// PublishNotReady is spec.publishNotReadyAddresses: endpoints that are not ready have names, too.
	PublishNotReady bool
}

// headless reports whether the name of the Service owns the addresses of its endpoints.
func (s *Service) headless() bool { return len(s.ClusterIPs) == 0 && s.ExternalName == "" }

func (s *Service) equal(t *Service) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.ExternalName == t.ExternalName &&
		s.PublishNotReady == t.PublishNotReady && slices.Equal(s.ClusterIPs, t.ClusterIPs) && slices.Equal(s.Ports, t.Ports) &&
		s.External.equal(t.External)
}

// External is where clients outside of the cluster reach a Service. It has addresses or a hostname.
type External struct {
	Addrs []netip.Addr // of spec.externalIPs and status.loadBalancer
	Host  string       // of status.loadBalancer, if there are no addresses
}

func (e *External) equal(o *External) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Host == o.Host && slices.Equal(e.Addrs, o.Addrs)
}

// Port is a port of a Service or of the endpoints in a slice. A port without a name has no record.
type Port struct {
	Name     string
	Protocol string // tcp, udp or sctp
	Number   uint16
}

// EndpointSlice has the fields of an EndpointSlice that DNS needs. A slice with the address type
// FQDN, or without a Service, has no records: the caller must not put it into a zone.
type EndpointSlice struct {
	Namespace string
	Name      string
	Service   string // label kubernetes.io/service-name
	Ports     []Port
	Endpoints []Endpoint // one per address
}

func (s *EndpointSlice) equal(t *EndpointSlice) bool {
	return s.Namespace == t.Namespace && s.Name == t.Name && s.Service == t.Service &&
		slices.Equal(s.Ports, t.Ports) && slices.Equal(s.Endpoints, t.Endpoints)
}

// named returns the number of endpoints with a hostname.
func (s *EndpointSlice) named() (n int) {
	for i := range s.Endpoints {
		if s.Endpoints[i].Hostname != "" {
			n++
		}
	}
	return n
}

// Endpoint is one address of an endpoint.
type Endpoint struct {
	Addr netip.Addr

	// Hostname is the label of the endpoint below the Service. If it is "", the label is derived from the address.
	Hostname string

	// Ready is the condition; nil in the API means true.
	Ready bool
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Hostname, b.Hostname))
}

// Pod has the fields of a pod that DNS needs, in the mode PodsVerified only.
type Pod struct {
	Namespace string
	Name      string
	Addrs     []netip.Addr
}

// addrPods are the pods of a namespace that have an address.
type addrPods struct {
	addr netip.Addr
	pods []*Pod // in the order of PutPod
}

// namespace is a namespace that is declared or has Services. It is immutable once published.
type namespace struct {
	name     string
	declared bool // by PutNamespace
	services int
}

// service is a Service with its endpoints. It is immutable once published.
type service struct {
	*identity
	spec   *Service         // nil: only slices have been put
	slices []*EndpointSlice // ascending by name

	version uint64 // the number of the edit
	named   int    // endpoints with a hostname

	// Computed by the first lookup that needs them. Without a lock two readers may compute the same.
	cachedView    atomic.Pointer[view]
	cachedTargets atomic.Pointer[targets]
}

// identity is shared by all versions of a service and by its reverse names, except those of endpoints with a hostname.
type identity struct {
	namespace, name string
	host            string // of an endpoint
}

// of returns the identity of an endpoint of the service.
func (i *identity) of(e Endpoint) *identity {
	if e.Hostname == "" {
		return i
	}
	return &identity{i.namespace, i.name, e.Hostname}
}

// exists reports whether the Service itself has been put.
func (s *service) exists() bool { return s != nil && s.spec != nil }

// clusterIPs returns the virtual addresses of s, which may be nil.
func (s *service) clusterIPs() []netip.Addr {
	if !s.exists() {
		return nil
	}
	return s.spec.ClusterIPs
}

// external returns the service as it is in an external zone: its external addresses are its cluster IPs, and a hostname
// is an ExternalName. It returns nil if the service has neither, or is nil. It is computed for each lookup, so that it
// takes no memory.
func (s *service) external() *service {
	if !s.exists() || s.spec.External == nil {
		return nil
	}
	return &service{identity: s.identity, version: s.version, spec: &Service{
		ClusterIPs: s.spec.External.Addrs, ExternalName: s.spec.External.Host, Ports: s.spec.Ports,
	}}
}

// serves reports whether e is an endpoint of the Service.
func (s *service) serves(e Endpoint) bool {
	return s.exists() && s.spec.ExternalName == "" && (e.Ready || s.spec.PublishNotReady)
}

// findSlice returns the slice of that name, nil if there is none, and its index or the index at which to insert it.
func findSlice(list []*EndpointSlice, name string) (*EndpointSlice, int) {
	i, ok := slices.BinarySearchFunc(list, name, func(e *EndpointSlice, name string) int {
		return cmp.Compare(e.Name, name)
	})
	if !ok {
		return nil, i
	}
	return list[i], i
}

// labelKey is a label in the keys of a tree. It starts with the length, as on the wire, so
// that no name is a prefix of another one.
func labelKey(s string) string { return string(byte(len(s))) + s }

// maxKey is the length of the longest serviceKey.
const maxKey = 2 + 2*(1+fqdn.MaxLabel)

// serviceKey returns the key of a Service, in buf: a hash, then the labels of namespace and
// name. Names have long common prefixes, and a lookup visits a tree node wherever two of
// them differ; two octets of a hash separate most of them at once.
func serviceKey(buf *[maxKey]byte, namespace, name string) []byte {
	key := buf[:2]
	for _, l := range [...]string{namespace, name} {
		key = append(append(key, byte(len(l))), l...)
	}
	hash := fnv.New32a()
	hash.Write(key[2:]) // never fails
	sum := hash.Sum32()
	binary.BigEndian.PutUint16(key, uint16(sum>>16^sum))
	return key
}

// addrLabel returns the label of an endpoint without a hostname, or of a pod: its address with dashes. A label must
// not end with a dash, so that an address that ends with "::" gets a 0.
func addrLabel(addr netip.Addr) string {
	var buf [40]byte
	return string(appendAddrLabel(buf[:0], addr))
}

func appendAddrLabel(b []byte, addr netip.Addr) []byte {
	start := len(b)
	b = addr.AppendTo(b)
	for i, c := range b[start:] {
		if c == '.' || c == ':' {
			b[start+i] = '-'
		}
	}
	if b[len(b)-1] == '-' {
		b = append(b, '0')
	}
	return b
}

// parseAddrLabel parses an address with dashes for dots or colons.
func parseAddrLabel(label string) (netip.Addr, bool) {
	sep := ":"
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		sep = "."
	}
	if strings.ContainsAny(label, ".:%") {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(label, "-", sep))
	return addr, err == nil
}

// The Check functions report why an object cannot have names. The API server validates its objects; those from other
// sources, such as manifests and snapshots, must be checked before they are put into a zone.

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
	if s.External != nil {
		for _, addr := range s.External.Addrs {
			if err := checkAddr(addr); err != nil {
				return fmt.Errorf("spec.externalIPs, status.loadBalancer: %w", err)
			}
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

// checkNames checks the labels, and the length of the name that they make below svc.<domain>.
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
