// SPDX-License-Identifier: Apache-2.0
import SwiftSyntax

/// Properties of a piece of source. The finder uses them to decide where a mutant can be made.
extension SyntaxProtocol {
    /// The range of this source in the file, without surrounding space.
    var trimmedBytes: Range<Int> {
        positionAfterSkippingLeadingTrivia.utf8Offset..<endPositionBeforeTrailingTrivia.utf8Offset
    }

    /// The name of the function or property that contains this source, as in the list of survivors.
    var nameOfFunction: String {
        var names: [String] = []
        for ancestor in sequence(first: Syntax(self), next: \.parent) {
            if let function = ancestor.as(FunctionDeclSyntax.self) {
                let labels = function.signature.parameterClause.parameters.map { $0.firstName.text + ":" }
                names.insert("\(function.name.text)(\(labels.joined()))", at: 0)
            } else if ancestor.is(InitializerDeclSyntax.self) {
                names.insert("init", at: 0)
            } else if ancestor.is(SubscriptDeclSyntax.self) {
                names.insert("subscript", at: 0)
            } else if let property = ancestor.as(VariableDeclSyntax.self),
                property.parent?.is(MemberBlockItemSyntax.self) ?? false
            {
                names.insert(property.bindings.first?.pattern.trimmedDescription ?? "", at: 0)
            } else if let type = ancestor.nameOfType {
                names.insert(type, at: 0)
            }
        }
        return names.joined(separator: ".")
    }

    private var nameOfType: String? {
        if let type = self.as(StructDeclSyntax.self) { return type.name.text }
        if let type = self.as(EnumDeclSyntax.self) { return type.name.text }
        if let type = self.as(ClassDeclSyntax.self) { return type.name.text }
        return self.as(ExtensionDeclSyntax.self)?.extendedType.trimmedDescription
    }

    /// The innermost function, accessor or closure that contains this source.
    fileprivate var body: Syntax? {
        for ancestor in sequence(first: Syntax(self), next: \.parent) {
            switch ancestor.kind {
            case .functionDecl, .initializerDecl, .accessorDecl, .accessorBlock, .closureExpr,
                .deinitializerDecl:
                return ancestor
            default: continue
            }
        }
        return nil
    }

    var isInFunctionWithoutResult: Bool { body?.as(FunctionDeclSyntax.self)?.hasResult == false }
}

extension FunctionDeclSyntax {
    var hasResult: Bool {
        guard let type = signature.returnClause?.type.trimmedDescription else { return false }
        return type != "Void" && type != "()"
    }
}

extension ExprSyntax {
    var withoutParentheses: ExprSyntax {
        guard let tuple = self.as(TupleExprSyntax.self), tuple.elements.count == 1,
            let only = tuple.elements.first, only.label == nil
        else { return self }
        return only.expression.withoutParentheses
    }
}

extension InfixOperatorExprSyntax {
    var operatorName: String? { self.operator.as(BinaryOperatorExprSyntax.self)?.operator.text }

    /// Whether the assignment gives a variable its first value. Without such an assignment, the source would not compile.
    var isInitialisation: Bool {
        let function = sequence(first: Syntax(self), next: \.parent).first {
            $0.is(FunctionDeclSyntax.self) || $0.is(InitializerDeclSyntax.self)
                || $0.is(AccessorBlockSyntax.self)
        }
        guard let function else { return false }
        if function.is(InitializerDeclSyntax.self) { return true }
        let name = leftOperand.trimmedDescription
        return DeclarationsWithoutValue.names(in: function).contains(name)
    }
}

private final class DeclarationsWithoutValue: SyntaxVisitor {
    private var names: Set<String> = []

    static func names(in node: Syntax) -> Set<String> {
        let visitor = DeclarationsWithoutValue(viewMode: .sourceAccurate)
        visitor.walk(node)
        return visitor.names
    }

    override func visit(_ node: PatternBindingSyntax) -> SyntaxVisitorContinueKind {
        let isOptional = node.typeAnnotation?.type.is(OptionalTypeSyntax.self) ?? false
        if node.initializer == nil, node.accessorBlock == nil, !isOptional {
            names.insert(node.pattern.trimmedDescription)
        }
        return .visitChildren
    }
}

extension CodeBlockItemSyntax {
    /// Whether the value of this statement is the result of its block.
    var isValue: Bool {
        guard let list = parent?.as(CodeBlockItemListSyntax.self), list.count == 1, let owner = list.parent
        else {
            return false
        }
        if let closure = owner.as(ClosureExprSyntax.self) { return !closure.isForItsEffect }
        if owner.is(AccessorBlockSyntax.self) { return true }
        if let branch = owner.as(SwitchCaseSyntax.self) {
            return branch.parent?.parent.map(Self.isValue(branching:)) ?? false
        }
        guard owner.is(CodeBlockSyntax.self), let holder = owner.parent else { return false }
        if let function = holder.as(FunctionDeclSyntax.self) { return function.hasResult }
        if let accessor = holder.as(AccessorDeclSyntax.self) {
            return accessor.accessorSpecifier.text == "get"
        }
        return holder.is(IfExprSyntax.self) && Self.isValue(branching: holder)
    }

    private static func isValue(branching node: Syntax) -> Bool {
        if let branch = node.as(IfExprSyntax.self) {
            if branch.elseBody == nil { return false }
            if let outer = branch.parent?.as(IfExprSyntax.self) { return isValue(branching: Syntax(outer)) }
        }
        guard var parent = node.parent else { return false }
        if parent.is(ExpressionStmtSyntax.self), let outer = parent.parent { parent = outer }
        return parent.as(CodeBlockItemSyntax.self)?.isValue ?? true
    }
}

extension ClosureExprSyntax {
    /// Whether the closure returns no value. This is assumed for closures of `forEach…`, except a `where` condition, and for
    /// closures with a parameter named `arbiter` or `effects`.
    fileprivate var isForItsEffect: Bool {
        if parent?.as(LabeledExprSyntax.self)?.label?.text == "where" { return false }
        let parameters = signature?.parameterClause?.trimmedDescription ?? ""
        if parameters.contains("arbiter") || parameters.contains("effects") { return true }
        let call = sequence(first: Syntax(self), next: \.parent).lazy
            .compactMap { $0.as(FunctionCallExprSyntax.self) }.first
        guard let call else { return false }
        let name =
            call.calledExpression.as(MemberAccessExprSyntax.self)?.declName.baseName.text
            ?? call.calledExpression.trimmedDescription
        return name.hasPrefix("forEach")
    }
}
