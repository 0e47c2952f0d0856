// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

// LoadConfig returns the client configuration in a kubeconfig file, or the in-cluster
// configuration if kubeconfig is "", with this User-Agent. The kubeconfig and the files that it names must
// be regular files: a server would wait for the writer of a FIFO.
func LoadConfig(kubeconfig, userAgent string) (*rest.Config, error) {
	if kubeconfig != "" {
		return loadFile(kubeconfig, "", userAgent, true)
	}
	cfg, err := rest.InClusterConfig()
	if err == nil {
		cfg.UserAgent = userAgent
	}
	return cfg, err
}

// LoadUserConfig returns the client configuration that kubectl would use. kubeconfig is a file, or ""
// for $KUBECONFIG, ~/.kube/config or the pod's service account, the first that exists. context is a
// context of the kubeconfig, or "" for the current one.
func LoadUserConfig(kubeconfig, context, userAgent string) (*rest.Config, error) {
	if kubeconfig != "" {
		return loadFile(kubeconfig, context, userAgent, false)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	for _, path := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(path); err != nil || path == os.DevNull {
			continue // package clientcmd passes over it, or returns the reason
		}
		if err := checkFile(path, false); err != nil {
			return nil, err
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig found in $KUBECONFIG and ~/.kube/config: set --kubeconfig")
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg.UserAgent = userAgent
	return cfg, nil
}

// loadFile reads a kubeconfig once, because it may be a pipe, unless regular is set: then it and
// the files that it names must be regular files.
func loadFile(path, context, userAgent string, regular bool) (*rest.Config, error) {
	if err := checkFile(path, regular); err != nil {
		return nil, err
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(loaded)
	}
	if err == nil && regular {
		err = checkNamed(loaded)
	}
	var cfg *rest.Config
	if err == nil {
		overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
		cfg, err = clientcmd.NewNonInteractiveClientConfig(*loaded, "", overrides, nil).ClientConfig()
	}
	if err != nil {
		return nil, describeError(path, err)
	}
	cfg.UserAgent = userAgent
	return cfg, nil
}

// checkNamed returns an error if a file that the current context of a kubeconfig names exists and is not
// a regular file of at most maxFile bytes. Package clientcmd returns other errors.
func checkNamed(loaded *clientcmdapi.Config) error {
	current := loaded.Contexts[loaded.CurrentContext]
	if current == nil {
		return nil
	}
	type named struct{ field, path string }
	var files []named
	if c := loaded.Clusters[current.Cluster]; c != nil {
		files = append(files, named{"certificate-authority", c.CertificateAuthority})
	}
	if u := loaded.AuthInfos[current.AuthInfo]; u != nil {
		files = append(files, named{"client-certificate", u.ClientCertificate}, named{"client-key", u.ClientKey},
			named{"tokenFile", u.TokenFile})
	}
	for _, f := range files {
		if err := atomicfile.CheckRegular(f.path, maxFile); err != nil && !errors.As(err, new(*fs.PathError)) {
			return fmt.Errorf("%s: %s: %w", f.field, f.path, err)
		}
	}
	return nil
}

// maxFile is the maximum size of a kubeconfig in bytes. One of hundreds of clusters with their
// certificates has less.
const maxFile = 4 << 20

// checkFile returns an error for a file that is not a kubeconfig and would take all memory, because
// package clientcmd reads it as a whole. A pipe, such as <(...) of a shell, is a file unless regular is set.
func checkFile(path string, regular bool) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 && !regular {
		return nil
	}
	return describeError(path, atomicfile.CheckRegular(path, maxFile))
}

// describeError returns an error of reading a kubeconfig, without the system call and the words of
// the decoder; nil for nil.
func describeError(path string, err error) error {
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		err = missing.Err
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		err = errors.New("has no cluster")
	case isOtherKind(err):
		err = errors.New("this is not a kubeconfig: want kind Config")
	}
	return fmt.Errorf("kubeconfig %s: %w", path, err)
}

// isOtherKind reports whether err is about an object of another kind, or about a value that is not an
// object. It compares texts, because package clientcmd does not wrap the error of the decoder.
func isOtherKind(err error) bool {
	return slices.ContainsFunc([]string{"no kind ", "Object 'Kind' is missing in ", "couldn't get version/kind; "},
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// NewClient returns a client for types of one version of one API group. To list objects, types
// must include their list type. Unless cfg sets a content type, the client prefers
// protobuf and accepts JSON. Clients that are created from one cfg share its connections.
func NewClient(cfg *rest.Config, version schema.GroupVersion, types ...runtime.Object) (rest.Interface, error) {
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

// ErrLargeReply is the error of a request whose reply exceeds the limit of [LimitReplies]. A list
// may be requested in smaller pages.
var ErrLargeReply = errors.New("the reply is too large")

// LimitReplies makes clients of cfg read at most limit bytes of each reply: tenants write
// objects of up to three megabytes: a page of 500 would be 1.5 gigabytes.
func LimitReplies(cfg *rest.Config, limit int64) {
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return limitedTransport{base, limit} })
}

type limitedTransport struct {
	http.RoundTripper
	limit int64
}

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &limitedBody{response.Body, t.limit}
	}
	return response, err
}

// limitedBody fails with ErrLargeReply after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, ErrLargeReply
	}
	return n, err
}

// ListWatch returns the requests of a [cache.Reflector] for the objects of a resource, in
// all namespaces, that selector selects.
//
// On some errors of a streaming list a reflector sleeps for up to a minute without regard
// to its context (watchList in client-go 0.37). On an error that it does not recognize it
// falls back to a plain list at once. So ListWatch hides the type of these errors.
func ListWatch(c rest.Interface, resource string, selector fields.Selector) *cache.ListWatch {
	lw := cache.NewListWatchFromClient(c, resource, metav1.NamespaceAll, selector)
	open := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := open(ctx, o)
		if err != nil && o.SendInitialEvents != nil {
			err = errors.New(err.Error())
		}
		return w, err
	}
	return lw
}
