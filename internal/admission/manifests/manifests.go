// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed files/*.yaml
var files embed.FS

// Config is the cluster that the objects are for. Exactly one of IssuerName and CABundle says how the
// API server trusts the certificate of the server.
type Config struct {
	Namespace     string
	Image         string
	ClusterDNS    []string // none: unknown
	ClusterDomain string   // "": unknown

	IssuerKind string // of cert-manager: Issuer or ClusterIssuer
	IssuerName string
	CABundle   []byte // PEM; the certificate is in a Secret

	APIServerCIDRs []netip.Prefix // from where reviews are accepted; none: from everywhere

	NamespaceExists bool // do not write the Namespace

	// ExcludedNamespaces are the namespaces whose objects are not reviewed, in addition to
	// kube-system and Namespace.
	ExcludedNamespaces []string

	Mutating bool // write the MutatingWebhookConfiguration
	Scale    bool // validate the scale of StatefulSets
}

// scaleWebhook is the webhook for the scale of StatefulSets.
const scaleWebhook = "scale.validate.dnsconfigurer.dev"

// YAML returns the objects as documents.
func (c Config) YAML() ([]byte, error) {
	var out [][]byte
	for _, file := range c.files() {
		text, err := files.ReadFile("files/" + file + ".yaml")
		if err != nil {
			return nil, err
		}
		objects, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range objects {
			if c.NamespaceExists && o.text("kind") == "Namespace" {
				continue
			}
			c.edit(o)
			text, err := o.encode()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, o.text("kind"), err)
			}
			out = append(out, text)
		}
	}
	return bytes.Join(out, []byte("---\n")), nil
}

// files returns the files with the objects.
func (c Config) files() []string {
	list := []string{"server"}
	if c.IssuerName != "" {
		list = append(list, "cert-manager")
	}
	if c.APIServerCIDRs != nil {
		list = append(list, "network-policy")
	}
	list = append(list, "validating")
	if c.Scale {
		list = append(list, "scale")
	}
	if c.Mutating {
		list = append(list, "mutating")
	}
	return list
}

// edit sets the values of c in an object.
func (c Config) edit(o *object) {
	if o.at("metadata/namespace") != nil {
		o.set("metadata/namespace", c.Namespace)
	}
	switch o.text("kind") {
	case "Namespace":
		o.set("metadata/name", c.Namespace)
	case "ServiceAccount":
		if !c.Scale { // the server does not use the API server
			o.add("", "automountServiceAccountToken", false)
		}
	case "ConfigMap":
		c.editConfiguration(o)
	case "Deployment":
		o.set("spec/template/spec/containers/0/image", c.Image)
		if !c.Scale {
			o.add("spec/template/spec", "automountServiceAccountToken", false)
		}
	case "NetworkPolicy":
		var from []map[string]any
		for _, p := range c.APIServerCIDRs {
			from = append(from, map[string]any{"ipBlock": map[string]string{"cidr": p.String()}})
		}
		o.set("spec/ingress/0/from", from)
	case "RoleBinding", "ClusterRoleBinding":
		o.set("subjects/0/namespace", c.Namespace)
	case "Certificate":
		o.set("spec/dnsNames/0", "dnsconfigurer-webhook."+c.Namespace+".svc")
		o.set("spec/issuerRef/kind", c.IssuerKind)
		o.set("spec/issuerRef/name", c.IssuerName)
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		c.editWebhooks(o)
	}
}

// editConfiguration sets the values of c in the server's configuration file.
func (c Config) editConfiguration(o *object) {
	const field = "data/webhook.yaml"
	inner, err := decode([]byte(o.text(field)))
	if err != nil || len(inner) != 1 {
		o.err = fmt.Errorf("%s: %d documents: %w", field, len(inner), err)
		return
	}
	file := inner[0]
	if c.ClusterDNS != nil {
		file.set("node/clusterDNS", c.ClusterDNS)
	} else {
		file.remove("node/clusterDNS")
	}
	if c.ClusterDomain != "" {
		file.set("node/clusterDomain", c.ClusterDomain)
	} else {
		file.remove("node/clusterDomain")
	}
	text, err := file.encode()
	if err != nil {
		o.err = fmt.Errorf("%s: %w", field, err)
		return
	}
	o.set(field, string(text))
}

// editWebhooks sets the values of c in the registration of the webhooks.
func (c Config) editWebhooks(o *object) {
	if c.IssuerName != "" {
		o.add("metadata", "annotations", map[string]string{"cert-manager.io/inject-ca-from": c.Namespace + "/dnsconfigurer-webhook"})
	}
	for i := 0; o.at(fmt.Sprint("webhooks/", i)) != nil; i++ {
		hook := fmt.Sprintf("webhooks/%d/", i)
		if !c.Scale && o.text(hook+"name") == scaleWebhook {
			o.remove(hook[:len(hook)-1])
			i--
			continue
		}
		o.set(hook+"clientConfig/service/namespace", c.Namespace)
		o.set(hook+"namespaceSelector/matchExpressions/0/values", append([]string{"kube-system", c.Namespace}, c.ExcludedNamespaces...))
		if c.CABundle != nil {
			o.add(hook+"clientConfig", "caBundle", base64.StdEncoding.EncodeToString(c.CABundle))
		}
	}
}

// An object is a mapping in YAML that keeps its comments. Fields are named by pointers such
// as spec/volumes/1. After an error its methods do nothing.
type object struct {
	node *yaml.Node
	err  error
}

// decode returns the documents of a file.
func decode(text []byte) (objects []*object, _ error) {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		if err := d.Decode(&document); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, &object{node: document.Content[0]})
	}
}

// encode returns the text of o.
func (o *object) encode() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err := errors.Join(o.err, e.Encode(o.node), e.Close())
	return b.Bytes(), err
}

// child returns the value of a key of a mapping, or the item at an index of a sequence, nil
// if it does not exist, and its place in n.Content.
func child(n *yaml.Node, key string) (*yaml.Node, int) {
	if n == nil {
		return nil, 0
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i < len(n.Content) {
			return n.Content[i], i
		}
		return nil, 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1], i + 1
		}
	}
	return nil, 0
}

// at returns the field at pointer, nil if it does not exist.
func (o *object) at(pointer string) *yaml.Node {
	n := o.node
	for key := range strings.SplitSeq(pointer, "/") {
		n, _ = child(n, key)
	}
	return n
}

// text returns the string at pointer, "" if it does not exist.
func (o *object) text(pointer string) string {
	if n := o.at(pointer); n != nil {
		return n.Value
	}
	return ""
}

// set sets the field at pointer, which must exist.
func (o *object) set(pointer string, value any) {
	n := o.at(pointer)
	if n == nil {
		o.err = errors.Join(o.err, fmt.Errorf("no field %s", pointer))
		return
	}
	var v yaml.Node
	if err := v.Encode(value); err != nil {
		o.err = errors.Join(o.err, err)
		return
	}
	if v.Kind == yaml.SequenceNode {
		v.Style = n.Style
	}
	if n.Style&yaml.LiteralStyle != 0 {
		v.Style = yaml.LiteralStyle
	}
	n.Kind, n.Tag, n.Value, n.Content, n.Style = v.Kind, v.Tag, v.Value, v.Content, v.Style
}

// add adds a key to the mapping at pointer, which must exist.
func (o *object) add(pointer, key string, value any) {
	n := o.node
	if pointer != "" {
		n = o.at(pointer)
	}
	var k, v yaml.Node
	if err := errors.Join(k.Encode(key), v.Encode(value)); err != nil || n == nil {
		o.err = errors.Join(o.err, err, fmt.Errorf("adding %s to %q", key, pointer))
		return
	}
	n.Content = append(n.Content, &k, &v)
}

// remove removes the key or the item at pointer, which must exist.
func (o *object) remove(pointer string) {
	parent, key := o.node, pointer
	if i := strings.LastIndexByte(pointer, '/'); i >= 0 {
		parent, key = o.at(pointer[:i]), pointer[i+1:]
	}
	found, i := child(parent, key)
	switch {
	case found == nil:
		o.err = errors.Join(o.err, fmt.Errorf("no field %s", pointer))
	case parent.Kind == yaml.SequenceNode:
		parent.Content = append(parent.Content[:i:i], parent.Content[i+1:]...)
	default:
		parent.Content = append(parent.Content[:i-1:i-1], parent.Content[i+1:]...)
	}
}
