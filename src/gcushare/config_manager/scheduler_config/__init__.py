"""kube-scheduler's configuration documents, edited byte for byte around what others wrote."""
