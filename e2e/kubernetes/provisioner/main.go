package main
import (
 _ "k8s.io/api/core/v1"
 _ "k8s.io/apimachinery/pkg/apis/meta/v1"
 _ "k8s.io/client-go/kubernetes"
 _ "k8s.io/client-go/tools/clientcmd"
 _ "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)
func main(){}
