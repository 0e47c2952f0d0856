// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadConfig returns the client configuration in a kubeconfig file, or the in-cluster
// configuration if kubeconfig is "", with this User-Agent.
func LoadConfig(kubeconfig, userAgent string) (cfg *rest.Config, err error) {
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else if cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		if missing, ok := errors.AsType[*fs.PathError](err); ok && missing.Path == kubeconfig {
			err = missing.Err // without the system call and the path
		}
		err = fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = userAgent
	return cfg, nil
}

// LoadUserConfig returns the client configuration that kubectl would use: of the kubeconfig
// file, or if it is "" of $KUBECONFIG, ~/.kube/config or the pod's service account, in the
// named context, or if it is "" in the current one.
func LoadUserConfig(kubeconfig, context, userAgent string) (*rest.Config, error) {
	if kubeconfig != "" {
		if _, err := clientcmd.LoadFromFile(kubeconfig); err != nil {
			return nil, userConfigError(kubeconfig, err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.UserAgent = userAgent
	return cfg, nil
}

// userConfigError returns an error of reading a kubeconfig, without the system call and the words
// of the decoder.
func userConfigError(path string, err error) error {
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		err = missing.Err
	}
	if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) {
		err = errors.New("this is not a kubeconfig: want kind Config")
	}
	return fmt.Errorf("kubeconfig %s: %w", path, err)
}

// New returns a client for types of one version of one API group. To list objects, types
// must include their list type. Unless cfg sets a content type, the client prefers
// protobuf and accepts JSON. Clients that are created from one cfg share its connections.
func New(cfg *rest.Config, version schema.GroupVersion, types ...runtime.Object) (rest.Interface, error) {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(version, types...)
	metav1.AddToGroupVersion(kinds, version)

	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion = &version
	cfg.APIPath = "/apis"
	if version.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
	if cfg.ContentType == "" {
		cfg.ContentType = runtime.ContentTypeProtobuf
		cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", version, err)
	}
	return c, nil
}
