// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"errors"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// NewServerNode returns the node of a shim or an agent. Node facts have no defaults: a
// default that differs from the kubelet's value would break pods.
func NewServerNode[C any](c v1alpha1.NodeServerConfiguration, s *config.Source[C]) (Node, *policy.Engine, error) {
	n := c.Node
	if n.KubeletConfig == "" && n.KubeletConfigDir == "" && (n.ClusterDNS == nil || n.ClusterDomain == nil || n.ResolvConf == nil) {
		return Node{}, nil, s.Incomplete(errors.New("node facts missing: set node.kubeletConfig, or node.clusterDNS, " +
			"node.clusterDomain and node.resolvConf, each of which may be empty"))
	}
	node, err := newServerNode(c, s)
	if err != nil {
		return Node{}, nil, err
	}
	if c.Mode == "Force" && len(node.ClusterDNS) == 0 {
		err := fmt.Errorf("%s without a cluster DNS would give pods the host's DNS: set "+
			"clusterDNS in the kubelet's configuration, or as node.clusterDNS", c.Mode)
		return Node{}, nil, &document.InputError{Location: s.Origin("mode"), Err: err}
	}
	engine, err := node.Engine()
	return node, engine, err
}

// NewClusterNode returns a node of the cluster of a webhook. Facts that are not set are those of a cluster
// with default settings.
func NewClusterNode[C any](c v1alpha1.NodeConfiguration, s *config.Source[C]) (Node, error) {
	node, err := newNode(c, v1alpha1.AutopathConfiguration{}, clusterFacts(), s)
	if err == nil {
		_, err = node.Engine() // names the field
	}
	return node, err
}

func newServerNode[C any](c v1alpha1.NodeServerConfiguration, s *config.Source[C]) (Node, error) {
	if c.Kubeconfig != "" {
		s.Track(c.Kubeconfig) // the client reads it
	}
	if c.Node.NodeName == "" {
		return Node{}, s.Missing("node.nodeName", "")
	}
	return newNode(c.Node, c.Autopath, facts{}, s)
}

// FillFacts sets the facts of n in c, instead of the kubelet's file.
func (n Node) FillFacts(c *v1alpha1.NodeConfiguration) {
	servers := make([]string, len(n.ClusterDNS))
	for i, a := range n.ClusterDNS {
		servers[i] = a.String()
	}
	c.KubeletConfig, c.KubeletConfigDir = "", ""
	c.ClusterDNS, c.ClusterDomain, c.ResolvConf = &servers, &n.ClusterDomain, &n.ResolvConf
}
